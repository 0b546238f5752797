// The part of PMIx's binary interface that is used here (PMIx 3 to 5): names and numbers are its own. Nothing of it is
// needed to build; a test compares these with the headers where they are installed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nbc::addon::pmix {

constexpr int32_t kSuccess = 0;
constexpr uint32_t kRankWildcard = UINT32_MAX - 1;
constexpr uint8_t kScopeGlobal = 3;
enum Type : uint16_t { kBool = 1, kString = 3, kInt = 6, kUint32 = 14 };

constexpr const char* kJobSize = "pmix.job.size";
constexpr const char* kCollectData = "pmix.collect";
constexpr const char* kTimeout = "pmix.timeout";

struct Proc {
  char nspace[256];
  uint32_t rank;
};

struct Value {
  uint16_t type;
  union {
    bool flag;
    char* string;
    int integer;
    uint32_t uint32;
    void* largest[3];  // pmix_envar_t
  } data;
};

struct Info {
  char key[512];
  uint32_t flags;
  Value value;
};

using Init = int32_t (*)(Proc*, Info*, size_t);
using Finalize = int32_t (*)(const Info*, size_t);
using Put = int32_t (*)(uint8_t scope, const char* key, Value*);
using Commit = int32_t (*)();
using Fence = int32_t (*)(const Proc*, size_t, const Info*, size_t);
using Get = int32_t (*)(const Proc*, const char* key, const Info*, size_t, Value**);
using ErrorString = const char* (*)(int32_t);

}  // namespace nbc::addon::pmix
