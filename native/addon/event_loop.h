// A descriptor in the event loop of one JavaScript environment: libuv polls it, and calls a JavaScript function when it
// is readable. All calls by the environment's thread.
#pragma once
#include <napi.h>

#include <memory>

namespace nbc::addon {

class EventLoopPoll {
 public:
  // null: the environment is not Node.js, or libuv refuses. Does not keep the event loop alive. The descriptor stays
  // the caller's, must be a datagram socket, and must outlive the object; one datagram is taken out before each call.
  static std::unique_ptr<EventLoopPoll> start(napi_env env, int descriptor, napi_value callback);
  ~EventLoopPoll();
  EventLoopPoll(const EventLoopPoll&) = delete;
  EventLoopPoll& operator=(const EventLoopPoll&) = delete;

 private:
  struct Polled;  // freed by libuv's call when the handle has closed
  explicit EventLoopPoll(Polled* polled) : polled_(polled) {}
  Polled* polled_;
};

}  // namespace nbc::addon
