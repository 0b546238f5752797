// From a JavaScript view to memory that stays.
#pragma once
#include <napi.h>

#include "engine/engine.h"

namespace nbc::addon {

enum class PinResult { ok, not_a_view, detached, resizable };

// Finds the memory of a typed array, DataView or Buffer and keeps it allocated for as long as `out.keeper` lives:
// against garbage collection, and also against detaching or transferring the ArrayBuffer, after which the memory
// belongs to another object or to none. Node-API can only keep the object, not the memory; so this one file uses V8's
// BackingStore.
PinResult pin(napi_value view, Pinned& out);

}  // namespace nbc::addon
