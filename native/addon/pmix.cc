#include "addon/pmix.h"

#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "addon/pmix_abi.h"

namespace nbc::addon {
namespace {

using namespace pmix;

struct Library {
  Init init;
  Finalize finalize;
  Put put;
  Commit commit;
  Fence fence;
  Get get;
  ErrorString error_string;
};

// Of this process. Its threads may all ask: each call has `g_calls` while it runs.
struct Client {
  Library library{};
  Proc self{};
  uint32_t size = 0;
  bool open = false;
};
Client g_client;
std::mutex g_calls;

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr)
    throw std::runtime_error(std::string("libpmix.so.2 has no ") + name + ": is it PMIx 3 or later?");
}

Library load() {
  void* handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    throw std::runtime_error(
        "the launcher offers PMIx, but libpmix.so.2 cannot be loaded (Debian: apt install libpmix2; or set NBC_STORE "
        "and NBC_SECRET, which do without): " +
        std::string(dlerror()));
  Library library{};
  find(handle, "PMIx_Init", library.init);
  find(handle, "PMIx_Finalize", library.finalize);
  find(handle, "PMIx_Put", library.put);
  find(handle, "PMIx_Commit", library.commit);
  find(handle, "PMIx_Fence", library.fence);
  find(handle, "PMIx_Get", library.get);
  find(handle, "PMIx_Error_string", library.error_string);
  return library;
}

void check(int32_t status, const char* what) {
  if (status != kSuccess) throw std::runtime_error(std::string(what) + ": " + g_client.library.error_string(status));
}

void open() {
  const std::lock_guard<std::mutex> call(g_calls);
  if (g_client.open) return;
  g_client.library = load();
  check(g_client.library.init(&g_client.self, nullptr, 0),
        "PMIx_Init, which needs the launcher that started this process (a program that a rank starts needs "
        "NBC_RANK=0 and NBC_SIZE=1: it is a job of its own)");
  g_client.open = true;
  Proc all = g_client.self;
  all.rank = kRankWildcard;
  Value* value = nullptr;
  check(g_client.library.get(&all, kJobSize, nullptr, 0, &value), "PMIx_Get of the job's size");
  if (value == nullptr || value->type != kUint32) throw std::runtime_error("PMIx_Get of the job's size: no number");
  g_client.size = value->data.uint32;
}

void close() {
  const std::lock_guard<std::mutex> call(g_calls);
  if (!g_client.open) return;
  g_client.open = false;
  check(g_client.library.finalize(nullptr, 0), "PMIx_Finalize");
}

std::vector<std::string> exchange(const std::string& name, std::string mine, int seconds) {
  const std::lock_guard<std::mutex> call(g_calls);
  if (!g_client.open) throw std::runtime_error("PMIx is not open");
  Value value{};
  value.type = kString;
  value.data.string = mine.data();
  check(g_client.library.put(kScopeGlobal, name.c_str(), &value), "PMIx_Put");
  check(g_client.library.commit(), "PMIx_Commit");
  Info how[2] = {};
  std::strcpy(how[0].key, kCollectData);
  how[0].value.type = kBool;
  how[0].value.data.flag = true;
  std::strcpy(how[1].key, kTimeout);
  how[1].value.type = kInt;
  how[1].value.data.integer = seconds;
  check(g_client.library.fence(nullptr, 0, how, 2), "PMIx_Fence, which waits until all ranks have called init()");
  std::vector<std::string> values;
  for (uint32_t rank = 0; rank < g_client.size; ++rank) {
    Proc proc = g_client.self;
    proc.rank = rank;
    Value* got = nullptr;
    check(g_client.library.get(&proc, name.c_str(), &how[1], 1, &got), "PMIx_Get");
    if (got == nullptr || got->type != kString) throw std::runtime_error("PMIx_Get: no text");
    values.emplace_back(got->data.string);
    free(got->data.string);
    free(got);
  }
  return values;
}

// Runs on a thread of Node's pool; then makes JavaScript's value of what it found.
class Work final : public Napi::AsyncWorker {
 public:
  using Result = std::function<Napi::Value(Napi::Env)>;
  Work(Napi::Env env, std::function<void()> run, Result result)
      : Napi::AsyncWorker(env), deferred_(env), run_(std::move(run)), result_(std::move(result)) {}
  static Napi::Value start(Napi::Env env, std::function<void()> run, Result result) {
    auto* work = new Work(env, std::move(run), std::move(result));  // deletes itself
    const Napi::Value promise = work->deferred_.Promise();
    work->Queue();
    return promise;
  }

 protected:
  void Execute() override {
    try {
      run_();
    } catch (const std::exception& error) {
      SetError(error.what());
    }
  }
  void OnOK() override { deferred_.Resolve(result_(Env())); }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  Napi::Promise::Deferred deferred_;
  std::function<void()> run_;
  Result result_;
};

Napi::Value pmix_open(const Napi::CallbackInfo& info) {
  return Work::start(info.Env(), open, [](Napi::Env env) {
    const auto place = Napi::Object::New(env);
    place.Set("rank", Napi::Number::New(env, g_client.self.rank));
    place.Set("size", Napi::Number::New(env, g_client.size));
    return place;
  });
}

Napi::Value pmix_exchange(const Napi::CallbackInfo& info) {
  const std::string name = info[0].ToString().Utf8Value();
  const std::string mine = info[1].ToString().Utf8Value();
  const int seconds = info[2].ToNumber().Int32Value();
  const auto values = std::make_shared<std::vector<std::string>>();
  return Work::start(
      info.Env(), [=] { *values = exchange(name, mine, seconds); },
      [=](Napi::Env env) {
        const auto list = Napi::Array::New(env, values->size());
        for (uint32_t i = 0; i < values->size(); ++i) list.Set(i, Napi::String::New(env, (*values)[i]));
        return list;
      });
}

Napi::Value pmix_close(const Napi::CallbackInfo& info) {
  return Work::start(info.Env(), close, [](Napi::Env env) { return env.Undefined(); });
}

}  // namespace

void export_pmix(Napi::Env env, Napi::Object exports) {
  exports.Set("pmixOpen", Napi::Function::New(env, pmix_open));
  exports.Set("pmixExchange", Napi::Function::New(env, pmix_exchange));
  exports.Set("pmixClose", Napi::Function::New(env, pmix_close));
}

}  // namespace nbc::addon
