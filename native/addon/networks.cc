// Before a world opens: whether ranks of several hosts can reach each other by verbs.
#include <napi.h>

#include <string>

#include "addon/errors.h"
#include "addon/exports.h"
#include "addon/fabrics.h"
#include "addon/options.h"
#include "fabric/verbs/offer.h"

namespace nbc::addon {
namespace {

// verbsOffer(options, turn): { device, offer } or { why }
Napi::Value verbs_offer(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  verbs::VerbsOptions options;
  OptionReader reader(info[0].As<Napi::Object>());
  options.read_options(reader);
  options.device.turn = info[1].ToNumber().Uint32Value();
  const auto result = Napi::Object::New(env);
  try {
    const VerbsOffer offer = offer_verbs(options);
    result.Set("device", offer.device);
    result.Set("offer", offer.text);
  } catch (const FabricError& error) {
    result.Set("why", error.message);
  }
  return result;
}

// whyNotByVerbs(mine, theirs, peer, device): why two offers do not reach each other; '': they do
Napi::Value why_not_by_verbs(const Napi::CallbackInfo& info) {
  const auto text = [&](size_t index) { return info[index].ToString().Utf8Value(); };
  return Napi::String::New(info.Env(), verbs::why_not_by_verbs(text(0), text(1), text(2), text(3)));
}

}  // namespace

void export_networks(Napi::Env env, Napi::Object exports) {
  exports.Set("verbsOffer", Napi::Function::New(env, verbs_offer));
  exports.Set("whyNotByVerbs", Napi::Function::New(env, why_not_by_verbs));
}

}  // namespace nbc::addon
