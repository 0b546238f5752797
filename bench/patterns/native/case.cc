#include "case.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "processors.h"

namespace nbc::patterns {
namespace {

[[noreturn]] void wrong(const std::string& word, const std::string& expected) {
  throw FabricError{word + ": expected " + expected};
}

uint32_t number(const std::string& word, const std::string& text, uint32_t least, uint32_t most) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    wrong(word, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

uint32_t message(const std::string& word, const std::string& text) {
  const uint32_t bytes = number(word, text, 8, kMostBytes);
  if (bytes % 8 != 0) wrong(word, "a multiple of 8");
  return bytes;
}

template <typename Enum>
Enum one_of(const std::string& word, const std::string& text, std::initializer_list<Enum> all) {
  std::string names;
  for (const Enum candidate : all) {
    if (text == name_of(candidate)) return candidate;
    names += (names.empty() ? "" : " or ") + std::string(name_of(candidate));
  }
  wrong(word, names);
}

constexpr auto kProcessors = {Processors::one, Processors::each, Processors::any};

Verb verb(const std::string& word, const std::string& text) { return one_of(word, text, {Verb::write, Verb::send}); }

void check(const Case& c) {
  if (c.transport == Transport::shm && (c.request == Verb::send || c.response == Verb::send))
    throw FabricError{"shared memory has no send: only request=write response=write runs there"};
  if (c.request == Verb::send && c.empty_pct != 0)
    throw FabricError{"request=send has no mailboxes at the responder, so none of them is empty (empty_pct)"};
  if (c.processors == Processors::each && c.threads() > processor_count())
    throw FabricError{std::to_string(c.threads()) + " threads need a processor each, and there are " +
                      std::to_string(processor_count())};
}

}  // namespace

const char* name_of(Transport transport) { return transport == Transport::shm ? "shm" : "verbs"; }
const char* name_of(Verb verb) { return verb == Verb::write ? "write" : "send"; }
const char* name_of(Design design) { return design == Design::own ? "private" : "dispatcher"; }
const char* name_of(Processors processors) {
  return processors == Processors::one ? "one" : processors == Processors::each ? "each" : "any";
}

uint32_t Case::mailboxes() const { return (clients * 100 + (100 - empty_pct) / 2) / (100 - empty_pct); }
// Evenly among those of nobody, as where all have owners and few of them have something to say.
uint32_t Case::mailbox_of(uint32_t client) const { return client * mailboxes() / clients; }

Case parse_case(const std::vector<std::string>& words) {
  Case c;
  using Set = void (*)(Case&, const std::string&, const std::string&);
  static const std::map<std::string, Set> setters = {
      {"transport",
       [](Case& c, const auto& w, const auto& v) {
         c.transport = one_of(w, v, {Transport::shm, Transport::verbs});
       }},
      {"request", [](Case& c, const auto& w, const auto& v) { c.request = verb(w, v); }},
      {"response", [](Case& c, const auto& w, const auto& v) { c.response = verb(w, v); }},
      {"design",
       [](Case& c, const auto& w, const auto& v) {
         c.design = one_of(w, v, {Design::own, Design::dispatcher});
       }},
      {"clients", [](Case& c, const auto& w, const auto& v) { c.clients = number(w, v, 1, kMostClients); }},
      {"workers", [](Case& c, const auto& w, const auto& v) { c.workers = number(w, v, 1, kMostClients); }},
      {"request_bytes", [](Case& c, const auto& w, const auto& v) { c.request_bytes = message(w, v); }},
      {"response_bytes", [](Case& c, const auto& w, const auto& v) { c.response_bytes = message(w, v); }},
      {"empty_pct", [](Case& c, const auto& w, const auto& v) { c.empty_pct = number(w, v, 0, 99); }},
      {"inline_bytes", [](Case& c, const auto& w, const auto& v) { c.inline_bytes = number(w, v, 0, kMostBytes); }},
      {"signal_every", [](Case& c, const auto& w, const auto& v) { c.signal_every = number(w, v, 1, 1024); }},
      {"warmup_ms", [](Case& c, const auto& w, const auto& v) { c.warmup_ms = number(w, v, 0, 60'000); }},
      {"measure_ms", [](Case& c, const auto& w, const auto& v) { c.measure_ms = number(w, v, 1, 600'000); }},
      {"least_requests", [](Case& c, const auto& w, const auto& v) { c.least_requests = number(w, v, 1, 1'000'000); }},
      {"processors", [](Case& c, const auto& w, const auto& v) { c.processors = one_of(w, v, kProcessors); }},
      {"device", [](Case& c, const auto&, const auto& v) { c.device = v; }},
      {"client_device", [](Case& c, const auto&, const auto& v) { c.client_device = v; }},
  };
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const auto setter = setters.find(word.substr(0, equals));
    if (equals == std::string::npos || setter == setters.end()) {
      std::string names;
      for (const auto& [name, ignored] : setters) names += (names.empty() ? "" : ", ") + name;
      wrong(word, "NAME=VALUE, where NAME is one of " + names);
    }
    setter->second(c, word, word.substr(equals + 1));
  }
  c.workers = std::min(c.workers, c.clients);
  check(c);
  return c;
}

}  // namespace nbc::patterns
