// Options of init() on their way into native code. Each struct of options has a function read_options() that names its
// fields as the table in src/transport/options.ts does ('waitOnSend', 'verbs.port'); these are its readers.
#pragma once
#include <napi.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "addon/errors.h"

namespace nbc::addon {

// Fills fields from an object. Throws Napi::Error for a value that is missing or has another type; whether it makes
// sense was checked in TypeScript.
class OptionReader {
 public:
  explicit OptionReader(Napi::Object given) : given_(given) {}

  void operator()(const char* name, bool& field) {
    const Napi::Value value = given_.Get(name);
    if (!value.IsBoolean()) fail(name);
    field = value.As<Napi::Boolean>().Value();
  }
  void operator()(const char* name, std::string& field) {
    const Napi::Value value = given_.Get(name);
    if (!value.IsString()) fail(name);
    field = value.As<Napi::String>().Utf8Value();
  }
  template <typename Number>
  void operator()(const char* name, Number& field) {
    const Napi::Value value = given_.Get(name);
    const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -2;
    if (!(number >= -1 && number <= 9007199254740991.0)) fail(name);
    field = static_cast<Number>(static_cast<int64_t>(number));
    if (static_cast<double>(field) != number) fail(name);
  }
  // One of some texts, each of which stands for a value.
  template <typename T>
  void choice(const char* name, T& field, std::initializer_list<std::pair<std::string_view, T>> choices) {
    std::string text;
    (*this)(name, text);
    for (const auto& [known, value] : choices) {
      if (text == known) {
        field = value;
        return;
      }
    }
    fail(name);
  }

 private:
  [[noreturn]] void fail(const char* name) { throw bad_argument(name, Reason::not_an_option).error(given_.Env()); }

  Napi::Object given_;
};

// Collects the names of all options that native code reads.
class OptionNames {
 public:
  template <typename T>
  void operator()(const char* name, T&) {
    names.emplace_back(name);
  }
  template <typename T>
  void choice(const char* name, T&, std::initializer_list<std::pair<std::string_view, T>>) {
    names.emplace_back(name);
  }
  std::vector<std::string> names;
};

}  // namespace nbc::addon
