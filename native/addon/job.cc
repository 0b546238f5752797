// What a launcher, and a rank that has not opened yet, do with the shared file of a job.
#include <napi.h>

#include <unistd.h>

#include <string>
#include <vector>

#include "addon/arguments.h"
#include "addon/errors.h"
#include "addon/exports.h"
#include "job/presence.h"
#include "job/processor_quota.h"
#include "job/segment.h"
#include "processor_set.h"

namespace nbc::addon {
namespace {

using job::Segment;

// Calls `body`, and throws a FabricError of it as an error of JavaScript.
template <typename Body>
Napi::Value guarded(Napi::Env env, Body&& body) {
  try {
    return body();
  } catch (const FabricError& failure) {
    throw cannot_open("ERR_NBC_OPEN", failure).error(env);
  }
}

// The file behind a descriptor, and a rank of it.
struct RankOfFile {
  explicit RankOfFile(const Napi::CallbackInfo& info)
      : segment(Segment::map(info[0].ToNumber().Int32Value(), Segment::Part::presence)),
        rank(info[1].ToNumber().Uint32Value()) {
    if (rank >= segment->size()) throw FabricError{"the job has no rank " + std::to_string(rank)};
  }
  std::shared_ptr<Segment> segment;
  Rank rank;
};

Napi::Value create_job(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const double bytes = info[1].ToNumber().DoubleValue();
    const bool given = bytes >= 1 && bytes <= 9007199254740991.0;
    std::vector<Rank> members;
    if (info[2].IsArray()) {
      const auto ranks = info[2].As<Napi::Array>();
      for (uint32_t i = 0; i < ranks.Length(); ++i) members.push_back(ranks.Get(i).ToNumber().Uint32Value());
    }
    return Napi::Number::New(info.Env(),
                             Segment::create(info[0].ToNumber().Uint32Value(), given ? static_cast<size_t>(bytes) : 0,
                                             job::system_page(), members, info[3].ToNumber().Uint32Value()));
  });
}

Napi::Value allowed_processors(const Napi::CallbackInfo& info) {
  auto found = Napi::Array::New(info.Env());
  for (const int processor : ProcessorSet::allowed(getpid()).list()) found.Set(found.Length(), processor);
  return found;
}

Napi::Value processor_quota(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), job::processor_quota());
}

Napi::Value job_sharing(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Segment::Sharing sharing = Segment::sharing(info[0].ToNumber().Int32Value());
    auto object = Napi::Object::New(info.Env());
    object.Set("processors", sharing.processors);
    object.Set("exposedBytes", static_cast<double>(sharing.arena_bytes));
    return object;
  });
}

Napi::Value rank_ended(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const RankOfFile ended(info);
    job::RankCaller caller;
    job::announce_closed(*ended.segment, ended.rank, caller);
    return info.Env().Undefined();
  });
}

Napi::Value declare_elsewhere(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const RankOfFile self(info);
    job::RankCaller caller;
    job::announce_elsewhere(*self.segment, self.rank, caller);
    for (Rank peer = 0; peer < self.segment->size(); ++peer) {
      if (job::has_opened(*self.segment, peer)) return Napi::Number::New(info.Env(), peer);
    }
    return Napi::Number::New(info.Env(), -1);
  });
}

Napi::Value close_descriptor(const Napi::CallbackInfo& info) {
  ::close(info[0].ToNumber().Int32Value());
  return info.Env().Undefined();
}

Napi::Value tell_descriptor_limit(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(descriptor_limit()));
}

}  // namespace

void export_job(Napi::Env env, Napi::Object exports) {
  exports.Set("createJob", Napi::Function::New(env, create_job));
  exports.Set("jobSharing", Napi::Function::New(env, job_sharing));
  exports.Set("allowedProcessors", Napi::Function::New(env, allowed_processors));
  exports.Set("processorQuota", Napi::Function::New(env, processor_quota));
  exports.Set("rankEnded", Napi::Function::New(env, rank_ended));
  exports.Set("declareElsewhere", Napi::Function::New(env, declare_elsewhere));
  exports.Set("closeDescriptor", Napi::Function::New(env, close_descriptor));
  exports.Set("descriptorLimit", Napi::Function::New(env, tell_descriptor_limit));
}

}  // namespace nbc::addon
