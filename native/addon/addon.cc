// The entry of the addon: one World for each JavaScript environment, and the native surface.
#include <napi.h>

#include "addon/buffer_pin.h"
#include "addon/exports.h"
#include "addon/world.h"

namespace nbc::addon {
namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  choose_pin(env);
  env.SetInstanceData(new World(env));
  export_job(env, exports);
  export_networks(env, exports);
  export_opening(env, exports);
  export_requests(env, exports);
  export_operators(env, exports);
  export_communicators(env, exports);
  export_memory(env, exports);
  export_reports(env, exports);
  export_pmix(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(nbc, init)

}  // namespace nbc::addon
