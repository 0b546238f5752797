#include "engine/trace.h"

namespace nbc {
namespace {

// Tests with a shorter pause between them are one event: programs test in loops.
constexpr double kPause = 20;

template <typename Number>
double word(Number number) {
  return static_cast<double>(number);
}

}  // namespace

Trace::Trace(size_t most) : most_(most) {
  // What is not touched takes no memory, and nothing is moved later.
  lists_.calls.reserve(most);
  lists_.events.reserve(most);
}

void Trace::call(Call which, double began, uint64_t operation) {
  const double ended = now();
  std::vector<Event>& calls = lists_.calls;
  if (which == Call::test && !calls.empty()) {
    Event& last = calls.back();
    if (last.words[1] == word(Call::test) && began - (last.time + last.words[0]) < kPause) {
      last.words[0] = ended - last.time;
      ++last.words[2];
      return;
    }
  }
  if (calls.size() == most_) {
    ++calls_left_out_;
    return;
  }
  calls.push_back({word(Kind::call), began, {ended - began, word(which), 1, word(operation)}});
}

void Trace::add(const Event& event) {
  if (lists_.events.size() < most_) {
    lists_.events.push_back(event);
  } else {
    ++lists_.left_out;
  }
}

void Trace::operation(uint64_t number, const std::string& name) {
  const auto [found, is_new] = names_.try_emplace(name, static_cast<uint32_t>(lists_.names.size()));
  if (is_new) lists_.names.push_back(name);
  add({word(Kind::operation), now(), {word(number), word(found->second)}});
}

void Trace::round(uint64_t number, uint32_t round) { add({word(Kind::round), now(), {word(number), word(round)}}); }

void Trace::end(uint64_t number, Error error) { add({word(Kind::end), now(), {word(number), word(error)}}); }

void Trace::driving(double began) { add({word(Kind::driving), began, {now() - began}}); }

void Trace::message(void* trace, const libof::Request& request, libof::State state) {
  const libof::MessageKey& key = request.key;
  static_cast<Trace*>(trace)->add({word(Kind::message) + word(state),
                                   now(),
                                   {word(reinterpret_cast<uintptr_t>(&request)), word(request.peer), word(key.context),
                                    word(key.tag), word(key.sequence), word(request.bytes)}});
}

const Trace::Lists& Trace::lists() {
  lists_.left_out += calls_left_out_;
  calls_left_out_ = 0;
  return lists_;
}

}  // namespace nbc
