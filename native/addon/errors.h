// Errors as JavaScript gets them: an Error whose properties say what happened. src/native-errors.ts declares these
// properties (NativeFailure), makes the sentences, and chooses the classes.
#pragma once
#include <napi.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "error.h"
#include "fabric/fabric.h"

namespace nbc::addon {

// Why an argument is refused. src/native-errors.ts has a sentence for each.
enum class Reason : uint32_t {
  not_a_view,
  detached,
  resizable,
  too_small,  // properties bytes, least
  overlaps_send,
  not_a_plan,
  not_a_communicator,
  not_in_range,
  not_a_peer,
  not_a_tag,
  not_a_number,
  too_large,  // property most
  not_bytes,
  not_a_list,
  not_a_member,
  not_this_process,
  not_an_object,
  not_an_option,
  count
};
std::string_view name_of(Reason reason);

// "ERR_NBC_…"
const char* code_of(Error error);

// One error: its code, and properties about it.
class Refusal {
 public:
  explicit Refusal(const char* code) : code_(code) {}
  Refusal& with(const char* name, double value);
  Refusal& with(const char* name, std::string value);

  // For functions on the hot path: throws in JavaScript unless an exception is pending, and returns null.
  napi_value raise(napi_env env) const;
  // For all others: `throw refusal.error(env)`.
  Napi::Error error(napi_env env) const;
  // The properties in an object that exists.
  void describe(napi_env env, napi_value object) const;

 private:
  struct Property {
    const char* name;
    std::variant<double, std::string> value;
  };
  const char* code_;
  std::vector<Property> properties_;
};

Refusal bad_argument(const char* argument, Reason reason);
Refusal not_open();
// For the copy of a buffer, where operations use copies.
Refusal no_memory_for_copy();
// How many descriptors this process may have open.
unsigned long descriptor_limit();
// A part of the world could not be set up. Where the error has no code of its own, it gets this one.
Refusal cannot_open(const char* code, const FabricError& error);
// Why the request in a slot failed.
Refusal failed_request(const RequestFailure& failure);
// The same as an object; undefined: nothing has failed.
Napi::Value failure_of(Napi::Env env, const RequestFailure& failure);

}  // namespace nbc::addon
