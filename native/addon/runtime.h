// Which runtime this environment is in, and which functions it has.
#pragma once
#include <dlfcn.h>
#include <napi.h>

namespace nbc::addon {

// Other runtimes have functions with names of V8 and of libuv that are not what they are in Node.js. In Bun values are
// no handles of V8, and some functions of libuv end the process. In Deno (2.9.6) uv_poll_start() makes a thread, and
// what that thread has posted to the event loop is called also when uv_close() has freed the handle.
inline bool is_node(napi_env env) {
  napi_value global;
  if (napi_get_global(env, &global) != napi_ok) return false;
  for (const char* other : {"Bun", "Deno"}) {
    bool found = true;
    if (napi_has_named_property(env, global, other, &found) != napi_ok || found) return false;
  }
  return true;
}

// A function of the runtime by its name. Null: it has none of that name.
template <typename Function>
void find_function(const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace nbc::addon
