#include "addon/errors.h"

#include <sys/resource.h>

#include <iterator>

namespace nbc::addon {
namespace {

constexpr std::string_view kReasons[] = {
    "notAView",         "detached",   "resizable",  "tooSmall",       "overlapsSend", "notAPlan",
    "notACommunicator", "notInRange", "notAPeer",   "notATag",        "notANumber",   "tooLarge",
    "notBytes",         "notAList",   "notAMember", "notThisProcess", "notAnObject",  "notAnOption",
};
static_assert(std::size(kReasons) == static_cast<size_t>(Reason::count));

napi_value text(napi_env env, std::string_view from) {
  napi_value value = nullptr;
  napi_create_string_utf8(env, from.data(), from.size(), &value);
  return value;
}

}  // namespace

std::string_view name_of(Reason reason) { return kReasons[static_cast<size_t>(reason)]; }

const char* code_of(Error error) {
  switch (error) {
    case Error::none:
      break;
    case Error::truncated:
      return "ERR_NBC_TRUNCATED";
    case Error::closed:
      return "ERR_NBC_CLOSED";
    case Error::peer_closed:
      return "ERR_NBC_PEER_CLOSED";
    case Error::mismatch:
      return "ERR_NBC_MISMATCH";
    case Error::system:
      return "ERR_NBC_SYSTEM";
    case Error::unreachable:
      return "ERR_NBC_UNREACHABLE";
    case Error::memory:
      return "ERR_NBC_MEMORY";
    case Error::abandoned:
      return "ERR_NBC_ABANDONED";
    case Error::too_many_requests:
      return "ERR_NBC_TOO_MANY_REQUESTS";
    case Error::calls_differ:
      return "ERR_NBC_MISMATCH";
    case Error::operator_failed:
      return "ERR_NBC_OPERATOR";
    case Error::revoked:
      return "ERR_NBC_REVOKED";
    case Error::counted_lost:
      return "ERR_NBC_COUNTED_LOST";
    case Error::descriptors:
      return "ERR_NBC_DESCRIPTORS";
  }
  return "ERR_NBC_UNKNOWN";
}

Refusal& Refusal::with(const char* name, double value) {
  properties_.push_back({name, value});
  return *this;
}

Refusal& Refusal::with(const char* name, std::string value) {
  properties_.push_back({name, std::move(value)});
  return *this;
}

void Refusal::describe(napi_env env, napi_value object) const {
  napi_set_named_property(env, object, "code", text(env, code_));
  for (const Property& property : properties_) {
    napi_value value = nullptr;
    if (const auto* number = std::get_if<double>(&property.value)) {
      napi_create_double(env, *number, &value);
    } else {
      value = text(env, std::get<std::string>(property.value));
    }
    napi_set_named_property(env, object, property.name, value);
  }
}

Napi::Error Refusal::error(napi_env env) const {
  std::string message = code_;
  for (const Property& property : properties_) {
    if (const auto* detail = std::get_if<std::string>(&property.value)) message += ": " + *detail;
  }
  const Napi::Error error = Napi::Error::New(env, message);
  describe(env, error.Value());
  return error;
}

napi_value Refusal::raise(napi_env env) const {
  bool pending = false;
  napi_is_exception_pending(env, &pending);
  if (!pending) error(env).ThrowAsJavaScriptException();
  return nullptr;
}

Refusal bad_argument(const char* argument, Reason reason) {
  return Refusal("ERR_NBC_ARGUMENT")
      .with("argument", std::string(argument))
      .with("reason", std::string(name_of(reason)));
}

Refusal not_open() { return Refusal("ERR_NBC_NOT_OPEN"); }

Refusal no_memory_for_copy() {
  return Refusal("ERR_NBC_NO_MEMORY").with("detail", std::string("there is no memory for a copy of the buffer"));
}

unsigned long descriptor_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<unsigned long>(limit.rlim_cur) : 0;
}

Refusal cannot_open(const char* code, const FabricError& error) {
  const bool descriptors = out_of_descriptors(error.system_errno);
  Refusal refusal(descriptors ? "ERR_NBC_DESCRIPTORS" : error.code != nullptr ? error.code : code);
  if (descriptors) refusal.with("most", static_cast<double>(descriptor_limit()));
  if (error.system_errno != 0) refusal.with("errno", error.system_errno);
  refusal.with("detail", error.message);
  return refusal;
}

Refusal failed_request(const RequestFailure& failure) {
  Refusal refusal(code_of(failure.error));
  // Memory, descriptors and functions are this rank's own.
  const bool of_a_peer = failure.error != Error::memory && failure.error != Error::operator_failed &&
                         failure.error != Error::calls_differ && failure.error != Error::descriptors;
  if (of_a_peer) refusal.with("peer", failure.peer);
  if (failure.error == Error::descriptors) refusal.with("most", static_cast<double>(descriptor_limit()));
  if (failure.error == Error::calls_differ) {
    const Mismatch& found = failure.mismatch;
    refusal.with("oneRank", found.ranks[0]).with("oneCall", found.calls[0]);
    refusal.with("otherRank", found.ranks[1]).with("otherCall", found.calls[1]);
    if (found.bytes != Mismatch::kUnknownBytes) refusal.with("oneBytes", static_cast<double>(found.bytes));
  }
  if (failure.error == Error::truncated) {
    refusal.with("bytesHere", static_cast<double>(failure.bytes_here));
    refusal.with("bytesThere", static_cast<double>(failure.bytes_there));
  }
  if (!failure.detail.empty()) refusal.with("detail", failure.detail);
  if (failure.cause != Error::none) {
    refusal.with("origin", failure.origin);
    refusal.with("cause", std::string(code_of(failure.cause)));
  }
  if (failure.buffers_in_use) refusal.with("buffersInUse", 1);
  return refusal;
}

Napi::Value failure_of(Napi::Env env, const RequestFailure& failure) {
  if (failure.error == Error::none) return env.Undefined();
  const auto object = Napi::Object::New(env);
  failed_request(failure).describe(env, object);
  return object;
}

}  // namespace nbc::addon
