// Which runtime this environment is in, and which functions it has.
#pragma once
#include <dlfcn.h>
#include <napi.h>

namespace nbc::addon {

// Bun has functions with names of V8 and of libuv that are not what they are in Node.js: its values are no handles of
// V8, and some functions of libuv end the process.
inline bool is_bun(napi_env env) {
  napi_value global;
  bool found = false;
  return napi_get_global(env, &global) == napi_ok && napi_has_named_property(env, global, "Bun", &found) == napi_ok &&
         found;
}

// A function of the runtime by its name. Null: it has none of that name.
template <typename Function>
void find_function(const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace nbc::addon
