#include "addon/event_loop.h"

#include <unistd.h>

#include "addon/runtime.h"

namespace nbc::addon {
namespace {

// What libuv 1 promises of its binary interface, so that the addon needs no header of it: every handle begins with
// `data`, and a uv_poll_t has 160 bytes on 64-bit Linux.
struct Handle {
  void* data = nullptr;
  alignas(16) unsigned char rest[248] = {};
};
using ReadableCallback = void (*)(Handle*, int status, int events);
using CloseCallback = void (*)(Handle*);
constexpr int kReadable = 1;  // UV_READABLE

// Looked up by name, so that the addon also loads where there is no libuv.
struct Libuv {
  decltype(&napi_get_uv_event_loop) event_loop;
  int (*poll_init)(uv_loop_s*, Handle*, int descriptor);
  int (*poll_start)(Handle*, int events, ReadableCallback);
  void (*close)(Handle*, CloseCallback);
  void (*unref)(Handle*);

  bool complete() const {
    return event_loop != nullptr && poll_init != nullptr && poll_start != nullptr && close != nullptr &&
           unref != nullptr;
  }
};

const Libuv& libuv() {
  static const Libuv found = [] {
    Libuv uv{};
    find_function("napi_get_uv_event_loop", uv.event_loop);
    find_function("uv_poll_init", uv.poll_init);
    find_function("uv_poll_start", uv.poll_start);
    find_function("uv_close", uv.close);
    find_function("uv_unref", uv.unref);
    return uv;
  }();
  return found;
}

}  // namespace

struct EventLoopPoll::Polled {
  Handle handle;
  napi_env env = nullptr;
  int descriptor = -1;
  napi_ref callback = nullptr;
  napi_async_context context = nullptr;

  static void on_readable(Handle* handle, int status, int events);
};

// A failure of the poll itself is no reason to call: the progress thread looks after what nobody answers.
void EventLoopPoll::Polled::on_readable(Handle* handle, int status, int /*events*/) {
  if (status != 0) return;
  auto& polled = *static_cast<Polled*>(handle->data);
  char some[64];
  // The doorbell is rung once for each arming, so there is rarely a second one; that makes the poll fire again.
  static_cast<void>(::read(polled.descriptor, some, sizeof some));
  napi_handle_scope scope;
  if (napi_open_handle_scope(polled.env, &scope) != napi_ok) return;
  napi_value callback;
  napi_value receiver;
  if (napi_get_reference_value(polled.env, polled.callback, &callback) == napi_ok &&
      napi_get_global(polled.env, &receiver) == napi_ok &&
      napi_make_callback(polled.env, polled.context, receiver, callback, 0, nullptr, nullptr) ==
          napi_pending_exception) {
    napi_value exception;
    if (napi_get_and_clear_last_exception(polled.env, &exception) == napi_ok)
      napi_fatal_exception(polled.env, exception);
  }
  napi_close_handle_scope(polled.env, scope);
}

std::unique_ptr<EventLoopPoll> EventLoopPoll::start(napi_env env, int descriptor, napi_value callback) {
  if (!is_node(env)) return nullptr;
  const Libuv& uv = libuv();
  uv_loop_s* loop = nullptr;
  if (!uv.complete() || uv.event_loop(env, &loop) != napi_ok || loop == nullptr) return nullptr;
  auto polled = std::make_unique<Polled>();
  if (uv.poll_init(loop, &polled->handle, descriptor) != 0) return nullptr;
  Polled& p = *polled;
  p.handle.data = &p;
  p.env = env;
  p.descriptor = descriptor;
  uv.unref(&p.handle);
  // From here on the handle belongs to the loop until it has been closed.
  std::unique_ptr<EventLoopPoll> made(new EventLoopPoll(polled.release()));
  napi_value name;
  if (napi_create_reference(env, callback, 1, &p.callback) != napi_ok ||
      napi_create_string_utf8(env, "node-nbc doorbell", NAPI_AUTO_LENGTH, &name) != napi_ok ||
      napi_async_init(env, nullptr, name, &p.context) != napi_ok ||
      uv.poll_start(&p.handle, kReadable, Polled::on_readable) != 0)
    return nullptr;
  return made;
}

EventLoopPoll::~EventLoopPoll() {
  if (polled_->context != nullptr) napi_async_destroy(polled_->env, polled_->context);
  if (polled_->callback != nullptr) napi_delete_reference(polled_->env, polled_->callback);
  libuv().close(&polled_->handle, [](Handle* handle) { delete static_cast<Polled*>(handle->data); });
}

}  // namespace nbc::addon
