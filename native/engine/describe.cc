// What a rank says of itself when somebody asks: the operations and messages that are pending.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "engine/engine.h"
#include "fabric/clock.h"

namespace nbc {

namespace {

const char* name_of(libof::State state) {
  switch (state) {
    case libof::State::eager_send_init:
      return "eager_send_init";
    case libof::State::eager_sending:
      return "eager_sending";
    case libof::State::recv_waiting_eager:
      return "recv_waiting_eager";
    case libof::State::rndv_recv_init:
      return "rndv_recv_init";
    case libof::State::recv_sending_rtr:
      return "recv_sending_rtr";
    case libof::State::send_waiting_rtr:
      return "send_waiting_rtr";
    case libof::State::send_sending_data:
      return "send_sending_data";
    case libof::State::done:
      return "done";
  }
  return "?";
}

// How long a thread that asks waits for the lock at once. In between it looks whether the caller has answered.
constexpr int64_t kAttempt = 20;  // ms

const char* name_of(Status::Caller caller) {
  switch (caller) {
    case Status::Caller::waits:
      return "waits";
    case Status::Caller::awaits:
      return "awaits";
    case Status::Caller::program:
      break;
  }
  return "program";
}

const char* place_of(Status::Caller caller) {
  switch (caller) {
    case Status::Caller::waits:
      return "in wait()";
    case Status::Caller::awaits:
      return "in the event loop, where the program awaits";
    case Status::Caller::program:
      break;
  }
  return "in the program";
}

std::string seconds(int64_t milliseconds) {
  return std::to_string(milliseconds / 1000) + "." + std::to_string(milliseconds % 1000 / 100) + " s";
}

// A string of JSON. Names of operations may be a user's.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

Awaited Engine::awaited(uint32_t slot) {
  Awaited found;
  enter();
  if (const Operation* operation = by_slot_[slot];
      operation != nullptr && slots_->get(slot) == static_cast<int32_t>(SlotState::pending)) {
    if (operation->loaded != nullptr && !operation->loaded->messages) {
      found.round = static_cast<uint32_t>(operation->round);
      found.rounds = static_cast<uint32_t>(operation->loaded->plan.rounds.size());
    }
    found.function = operation->ticket != 0;
    libof_.visit_requests(*operation, [&](const libof::Request& request) { found.peers.push_back(request.peer); });
    std::sort(found.peers.begin(), found.peers.end());
    found.peers.erase(std::unique(found.peers.begin(), found.peers.end()), found.peers.end());
  }
  leave();
  return found;
}

std::string Status::text() const {
  std::string text = std::string(place_of(caller)) + (pending == 0 ? ", nothing is pending\n" : "; pending:\n");
  for (const Operation& operation : operations) {
    text += "  " + operation.title + ", for " + seconds(operation.milliseconds) + ", waits for " +
            std::to_string(operation.outstanding);
    if (operation.function) text += ", one of them the function of its operator";
    text += "\n";
    for (const Message& message : operation.messages) {
      text += "    rank " + std::to_string(message.peer) + ", " + std::to_string(message.bytes) + " bytes, tag " +
              std::to_string(message.tag) + ", " + message.state + "\n";
    }
  }
  if (pending > operations.size()) text += "  and " + std::to_string(pending - operations.size()) + " more\n";
  return text;
}

std::string Status::members_for_nbcrun() const {
  std::string peers_text;
  for (const uint32_t peer : peers) peers_text += (peers_text.empty() ? "" : ",") + std::to_string(peer);
  const int64_t longest = operations.empty() ? 0 : operations.front().milliseconds;
  return std::string("\"caller\":\"") + name_of(caller) + "\",\"steps\":" + std::to_string(steps) +
         ",\"pending\":" + std::to_string(pending) + ",\"longest\":" + std::to_string(longest) + ",\"peers\":[" +
         peers_text + "],\"text\":" + quoted(text());
}

std::string Status::members_for_nbctop() const {
  const auto number = [](double value) { return std::to_string(static_cast<int64_t>(value)); };
  const auto list = [](const auto& items, const auto& text_of) {
    std::string text;
    for (const auto& item : items) text += (text.empty() ? "" : ",") + text_of(item);
    return text;
  };
  return std::string("\"caller\":\"") + name_of(caller) + "\",\"pending\":" + std::to_string(pending) +
         ",\"operations\":[" +
         list(operations,
              [](const Operation& one) {
                return "{\"title\":" + quoted(one.title) + ",\"milliseconds\":" + std::to_string(one.milliseconds) +
                       "}";
              }) +
         "],\"peers\":[" + list(peers, [](uint32_t peer) { return std::to_string(peer); }) +
         "],\"time\":" + number(metered.time) + ",\"waited\":" + number(metered.waited) +
         ",\"sent\":" + std::to_string(metered.sent) + ",\"received\":" + std::to_string(metered.received) +
         ",\"counters\":{" +
         list(counters,
              [&](const std::pair<Counter, double>& one) {
                return std::string("\"") + nbc::name_of(one.first) + "\":" + number(one.second);
              }) +
         "}";
}

Status Engine::describe(Status::Caller caller) const {
  Status status;
  status.caller = caller;
  status.steps = counters_.rounds + counters_.started;
  const int64_t now = now_milliseconds();
  for (const Operation* operation = active_.head; operation != nullptr; operation = operation->next) {
    if (++status.pending > Status::kMost) continue;
    Status::Operation& one = status.operations.emplace_back();
    one.slot = operation->slot;
    one.outstanding = operation->outstanding;
    one.function = operation->ticket != 0;
    one.milliseconds = now - operation->began;
    if (operation->loaded == nullptr || operation->loaded->messages) {
      one.title = operation->loaded == nullptr ? "a message" : "messages";
    } else {
      const std::string& name = operation->loaded->name;
      one.title = (name.empty() ? "" : name + ", ") + "collective " + std::to_string(operation->tag) + ", round " +
                  std::to_string(operation->round) + " of " + std::to_string(operation->loaded->plan.rounds.size());
    }
    libof_.visit_requests(*operation, [&](const libof::Request& request) {
      status.peers.push_back(request.peer);
      if (one.messages.size() < Status::kMost)
        one.messages.push_back({request.peer, request.bytes, request.key.tag, name_of(request.state)});
    });
  }
  std::sort(status.peers.begin(), status.peers.end());
  status.peers.erase(std::unique(status.peers.begin(), status.peers.end()), status.peers.end());
  add_counters([&](Counter counter, double value) { status.counters.emplace_back(counter, value); });
  status.metered = meter_.read();
  return status;
}

// --- the meter -------------------------------------------------------------------------------------------------------

// By the owner of the engine. `in_wait`: it is the calling thread, in wait().
void Engine::set_metering(Metering metering, bool in_wait) {
  if (metering == Metering::as_it_is) return;
  const bool was_on = meter_.is_on();
  const uint8_t others = meter_.listeners() & static_cast<uint8_t>(~Meter::kMonitor);
  set_metering(metering == Metering::on ? others | Meter::kMonitor : others);
  if (in_wait && was_on != meter_.is_on()) was_on ? meter_.end_wait() : meter_.begin_wait();
}

void Engine::set_metering(uint8_t listeners) {
  if (listeners == meter_.listeners()) return;
  meter_.listen(listeners);
  libof_.observe(observer());
}

// A trace alone needs nobody between: each event would take a nanosecond or two longer.
libof::Observer* Engine::observer() {
  if (meter_.is_on()) return this;
  return trace_.get();
}

void Engine::moved(libof::Request& request, libof::State state) {
  meter_.moved(request, state);
  if (trace_ != nullptr) trace_->moved(request, state);
}

void Engine::at_once(const libof::RequestOwner& owner, const libof::MessageInfo& message, libof::State first) {
  meter_.at_once(message, first);
  if (trace_ != nullptr) trace_->at_once(owner, message, first);
}

Metered Engine::metered() {
  enter();
  set_metering(meter_.listeners() | Meter::kProgram);
  const Metered found = meter_.read();
  leave();
  return found;
}

// --- asking ----------------------------------------------------------------------------------------------------------

void Engine::answer_if_asked() {
  // seq_cst, also in ask(): a caller that took its ticket before the ring sees the question, or the ring ends its sleep
  if (!asked_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard<std::mutex> guard(answer_mutex_);
  if (!asked_.exchange(false)) return;
  set_metering(asked_metering_, true);
  answer_ = describe(Status::Caller::waits);
  answered_.notify_all();
}

std::optional<Status> Engine::ask(int64_t milliseconds, Metering metering) {
  const int64_t until = now_milliseconds() + milliseconds;
  std::optional<Status> found;
  {
    const std::lock_guard<std::mutex> guard(answer_mutex_);
    asked_metering_ = metering;
  }
  asked_.store(true, std::memory_order_seq_cst);
  fabric_->ring_self(Sleeper::caller);
  do {
    // A caller in wait() keeps the lock while it sleeps, and answers. Any other thread that has it gives it up soon.
    if (lock_.lock_within(kAttempt)) {
      set_metering(metering, false);
      found = describe(watched_ > 0 ? Status::Caller::awaits : Status::Caller::program);
      lock_.unlock();
      // While this thread had the lock, the progress thread may have tried it, and have gone to sleep.
      fabric_->ring_self(Sleeper::progress);
    }
    std::unique_lock<std::mutex> guard(answer_mutex_);
    if (!found) answered_.wait_for(guard, std::chrono::milliseconds(kAttempt), [this] { return answer_.has_value(); });
    if (answer_) found = std::exchange(answer_, std::nullopt);
  } while (!found && now_milliseconds() < until);
  const std::lock_guard<std::mutex> guard(answer_mutex_);
  asked_.store(false, std::memory_order_relaxed);
  answer_.reset();
  return found;
}

}  // namespace nbc
