// Which runtime this environment is in, where its functions alone do not tell.
#pragma once
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

}  // namespace nbc::addon
