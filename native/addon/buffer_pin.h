// From a JavaScript view to memory that stays. Where the runtime lets native code hold the memory of a buffer
// (backing_store.h), operations use that memory. Elsewhere (Deno, Bun) nothing keeps a program from detaching a buffer
// while an operation uses it, and the memory from being freed with its new owner; so there operations use copies, whose
// results go back when the request is settled (copies.h). Memory of alloc() is ours, and needs no copy anywhere.
#pragma once
#include <napi.h>

#include "engine/engine.h"

namespace nbc::addon {

class RecentStores;

enum class PinResult { ok, not_a_view, detached, resizable, no_memory };

// Before the first pin. The variable NBC_BUFFERS=copy has the copies made in every runtime: for tests.
void choose_pin(napi_env env);
bool pins_copies();

// A view as Node-API shows it. The memory is there as long as no JavaScript runs.
PinResult look_at(napi_env env, napi_value view, Pinned& out);

// Finds the memory of a typed array, DataView or Buffer, or a copy of it, and keeps it allocated for as long as
// `out.keeper` lives: against garbage collection, and also against detaching or transferring the ArrayBuffer, after
// which the memory belongs to another object or to none. `place`: the memory of the view itself.
PinResult pin(napi_env env, napi_value view, RecentStores& recent, Pinned& out, const std::byte*& place);

}  // namespace nbc::addon
