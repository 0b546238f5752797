#include "addon/pmix.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>
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

using Answer = std::vector<std::string>;

// Of this process. Its threads may all ask: each call has `g_calls` while it runs. What is here does not change while
// it is open.
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

Answer place() { return {std::to_string(g_client.self.rank), std::to_string(g_client.size)}; }

Answer open() {
  const std::lock_guard<std::mutex> call(g_calls);
  if (g_client.open) return place();
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
  return place();
}

Answer close() {
  const std::unique_lock<std::mutex> call(g_calls, std::try_to_lock);
  if (!call) throw std::runtime_error("another call has not returned yet, and may never return");
  if (!g_client.open) return {};
  g_client.open = false;
  check(g_client.library.finalize(nullptr, 0), "PMIx_Finalize");
  return {};
}

Info limit(int seconds) {
  Info info{};
  std::strcpy(info.key, kTimeout);
  info.value.type = kInt;
  info.value.data.integer = seconds;
  return info;
}

// What a rank has told under a name. Empty on success, otherwise what is wrong.
std::string get(uint32_t rank, const std::string& name, int seconds, std::string& told) {
  Proc proc = g_client.self;
  proc.rank = rank;
  const Info how = limit(seconds);
  Value* got = nullptr;
  const int32_t status = g_client.library.get(&proc, name.c_str(), &how, 1, &got);
  if (status != kSuccess) return g_client.library.error_string(status);
  if (got == nullptr || got->type != kString) return "no text";
  told = got->data.string;
  free(got->data.string);
  free(got);
  return {};
}

Answer exchange(const std::string& name, std::string mine, int seconds) {
  const std::lock_guard<std::mutex> call(g_calls);
  if (!g_client.open) throw std::runtime_error("PMIx is not open");
  Value value{};
  value.type = kString;
  value.data.string = mine.data();
  check(g_client.library.put(kScopeGlobal, name.c_str(), &value), "PMIx_Put");
  check(g_client.library.commit(), "PMIx_Commit");
  Info how[2] = {{}, limit(seconds)};
  std::strcpy(how[0].key, kCollectData);
  how[0].value.type = kBool;
  how[0].value.data.flag = true;
  check(g_client.library.fence(nullptr, 0, how, 2), "PMIx_Fence, which waits until all ranks have called init()");
  Answer values(g_client.size);
  for (uint32_t rank = 0; rank < g_client.size; ++rank) {
    const std::string wrong = get(rank, name, seconds, values[rank]);
    if (!wrong.empty()) throw std::runtime_error("PMIx_Get: " + wrong);
  }
  return values;
}

// Ranks that have not told anything under a name: as many as can be found in that time. Also while an exchange waits
// for them, which is why it does not take `g_calls`.
Answer missing(const std::string& name, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  Answer ranks;
  std::string told;
  for (uint32_t rank = 0; rank < g_client.size && std::chrono::steady_clock::now() < end; ++rank)
    if (!get(rank, name, 1, told).empty()) ranks.push_back(std::to_string(rank));
  return ranks;
}

void send_all(int socket, const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t bytes = ::send(socket, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno != EINTR) return;  // the reader has closed its end
    if (bytes > 0) sent += static_cast<size_t>(bytes);
  }
}

// A thread may run on when the environment that started it is gone, with all that it had loaded.
void keep_loaded() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(send_all), &self) != 0)
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// Runs it on a thread of its own. Returns the socket from which the answer is read until it ends: '+' and texts with
// '\0' behind each, or '-' and what is wrong. A server may never answer; that thread is left alone then, and nothing
// waits for it, as Node would at its end for one of its own pool.
Napi::Value answer_of(Napi::Env env, std::function<Answer()> run) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Napi::Error::New(env, std::string("socketpair: ") + std::strerror(errno));
  static const bool kept = (keep_loaded(), true);
  static_cast<void>(kept);
  try {
    std::thread([run = std::move(run), socket = ends[1]] {
      std::string text = "+";
      try {
        for (const std::string& part : run()) text += part + '\0';
      } catch (const std::exception& error) {
        text = std::string("-") + error.what();
      }
      send_all(socket, text);
      ::close(socket);
    }).detach();
  } catch (const std::system_error& error) {
    for (const int end : ends) ::close(end);
    throw Napi::Error::New(env, std::string("starting a thread: ") + error.what());
  }
  return Napi::Number::New(env, ends[0]);
}

Napi::Value pmix_open(const Napi::CallbackInfo& info) { return answer_of(info.Env(), open); }

Napi::Value pmix_exchange(const Napi::CallbackInfo& info) {
  const std::string name = info[0].ToString().Utf8Value();
  const std::string mine = info[1].ToString().Utf8Value();
  const int seconds = info[2].ToNumber().Int32Value();
  return answer_of(info.Env(), [=] { return exchange(name, mine, seconds); });
}

Napi::Value pmix_missing(const Napi::CallbackInfo& info) {
  const std::string name = info[0].ToString().Utf8Value();
  const int seconds = info[1].ToNumber().Int32Value();
  return answer_of(info.Env(), [=] { return missing(name, seconds); });
}

Napi::Value pmix_close(const Napi::CallbackInfo& info) { return answer_of(info.Env(), close); }

}  // namespace

void export_pmix(Napi::Env env, Napi::Object exports) {
  exports.Set("pmixOpen", Napi::Function::New(env, pmix_open));
  exports.Set("pmixExchange", Napi::Function::New(env, pmix_exchange));
  exports.Set("pmixMissing", Napi::Function::New(env, pmix_missing));
  exports.Set("pmixClose", Napi::Function::New(env, pmix_close));
}

}  // namespace nbc::addon
