// V8's BackingStore of a buffer: what keeps its memory allocated whatever becomes of the object. Node-API can only keep
// the object. So this is the one file that uses V8, and it looks its functions up at run time: the addon itself needs
// Node-API alone.
#pragma once
#include <napi.h>

#include "addon/buffer_pin.h"

namespace nbc::addon {

// Whether this process has these functions, and values of Node-API are handles of that V8. So it is in Node.js 20 to
// 26; it is not in Deno, which exports no V8, and not in Bun, which has another engine.
bool has_backing_stores(napi_env env);

// Only where there are backing stores.
PinResult pin_backing_store(napi_value view, Pinned& out);

}  // namespace nbc::addon
