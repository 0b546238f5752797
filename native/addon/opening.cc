// Jobs and worlds: what comes before the first communicator, and the end.
#include <napi.h>

#include <memory>
#include <string>

#include "addon/arguments.h"
#include "addon/exports.h"
#include "addon/opening.h"
#include "addon/options.h"
#include "addon/world.h"
#include "fabric/tcp/socket.h"
#include "processor_set.h"

namespace nbc::addon {
namespace {

// Listens at a numeric address and any free port, before the world opens: others must know where.
Napi::Value listen_tcp(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  try {
    tcp::Socket socket = tcp::listen_on(tcp::parse_address(info[0].ToString().Utf8Value(), 0));
    const auto result = Napi::Object::New(env);
    result.Set("port", Napi::Number::New(env, tcp::port_of(tcp::address_of(socket))));
    result.Set("fd", Napi::Number::New(env, socket.release()));
    return result;
  } catch (const FabricError& error) {
    throw cannot_open("ERR_NBC_TRANSPORT", error).error(env);
  }
}

// The listening socket, which belongs to this function's caller from now on, also where open() fails. Empty where no
// rank is reached by TCP.
tcp::Socket listener_of(const Napi::Value& tcp) {
  if (!tcp.IsObject()) return {};
  const Napi::Value listener = tcp.As<Napi::Object>().Get("listener");
  return tcp::Socket(listener.IsNumber() ? listener.As<Napi::Number>().Int32Value() : -1);
}

Napi::Value cards_of(const Napi::Value& tcp) { return tcp.IsObject() ? tcp.As<Napi::Object>().Get("cards") : tcp; }

std::vector<mixed::TwoNetworks::Way> ways_of(const Napi::Value& given) {
  using Way = mixed::TwoNetworks::Way;
  std::vector<Way> ways;
  if (!given.IsArray()) return ways;
  const auto array = given.As<Napi::Array>();
  for (uint32_t i = 0; i < array.Length(); ++i) {
    const std::string name = array.Get(i).ToString();
    ways.push_back(name == "verbs" ? Way::verbs : name == "tcp" ? Way::tcp : Way::none);
  }
  return ways;
}

// Where all ranks are, if any rank is reached by TCP: with transport 'tcp', and with 'auto' in a job whose ranks met
// and are on several hosts.
Opening::Tcp tcp_options(const Napi::Value& given) {
  Opening::Tcp tcp;
  if (!given.IsObject()) return tcp;
  const auto object = given.As<Napi::Object>();
  tcp.secret = object.Get("secret").ToString().Utf8Value();
  tcp.ports = numbers(object.Get("ports"));
  if (const Napi::Value cards = cards_of(given); cards.IsObject())
    tcp.card_ports = numbers(cards.As<Napi::Object>().Get("ports"));
  tcp.hosts = numbers(object.Get("hosts"));
  tcp.processors = object.Get("processors").ToNumber().Uint32Value();
  const Napi::Value addresses = object.Get("addresses");
  if (addresses.IsArray()) {
    const auto array = addresses.As<Napi::Array>();
    for (uint32_t i = 0; i < array.Length(); ++i) tcp.addresses.push_back(array.Get(i).ToString().Utf8Value());
  }
  return tcp;
}

// The place of this rank in its job: src/native.ts, NativeJob.
void read_job(Napi::Env env, const Napi::Object& job, Opening& opening) {
  opening.rank = number(env, job.Get("rank"), "rank");
  opening.size = number(env, job.Get("size"), "size");
  const Napi::Value fd = job.Get("jobFd");
  opening.job_fd = fd.IsNumber() ? fd.As<Napi::Number>().Int32Value() : -1;
  const Napi::Value threads = job.Get("threads");
  if (threads.IsNumber()) opening.threads = number(env, threads, "threads");
  opening.launched = job.Get("launched").ToBoolean();
  opening.transport = job.Get("transport").ToString().Utf8Value();
  opening.ways = ways_of(job.Get("ways"));
  opening.host = job.Get("host").ToString().Utf8Value();
  opening.tcp = tcp_options(job.Get("tcp"));
  opening.neighbours = numbers(job.Get("neighbours"));
}

// open(job, options, onCompletions)
Napi::Value open(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsObject() || !info[1].IsObject() || !info[2].IsFunction())
    throw bad_argument("options", Reason::not_an_object).error(env);
  const auto job = info[0].As<Napi::Object>();
  Listeners listeners{listener_of(job.Get("tcp")), listener_of(cards_of(job.Get("tcp")))};
  Opening opening;
  read_job(env, job, opening);
  OptionReader reader(info[1].As<Napi::Object>());
  opening.read_options(reader);
  if (opening.engine.libof.eager_limit > kLargestEagerLimit)
    throw bad_argument("eagerLimit", Reason::too_large).with("most", kLargestEagerLimit).error(env);
  if (opening.tcp_eager_limit > static_cast<int32_t>(libof::kLargestEagerMessage))
    throw bad_argument("tcp.eagerLimit", Reason::too_large).with("most", libof::kLargestEagerMessage).error(env);
  World* world = World::of(env);
  world->open(opening, std::move(listeners), info[2]);
  // The table outlives the world for as long as JavaScript can see it.
  auto* keeper = new std::shared_ptr<SlotTable>(world->slots());
  const auto buffer = Napi::ArrayBuffer::New(
      env, (*keeper)->data(), SlotTable::bytes(),
      [](Napi::Env, void*, std::shared_ptr<SlotTable>* held) { delete held; }, keeper);
  return Napi::Int32Array::New(env, kSlots, buffer, 0);
}

// checkNoneOpen(thread)
Napi::Value check_none_open(const Napi::CallbackInfo& info) {
  World::of(info.Env())->check_none_open(info[0].ToBoolean());
  return info.Env().Undefined();
}

// bindThread(processor)
Napi::Value bind_thread(const Napi::CallbackInfo& info) {
  const uint32_t processor = info[0].ToNumber().Uint32Value();
  if (!ProcessorSet(processor).bind()) {
    const std::string what = "cannot bind this rank to processor " + std::to_string(processor);
    throw cannot_open("ERR_NBC_OPEN", system_failure(what)).error(info.Env());
  }
  return info.Env().Undefined();
}

Napi::Value close(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  World& world = *World::of(env);
  const RequestFailure failure = world.is_open() ? world.engine().last_look() : RequestFailure();
  world.close(false);
  return failure_of(env, failure);
}

Napi::Value set_keep_alive(const Napi::CallbackInfo& info) {
  require_open(info.Env()).set_keep_alive(info[0].ToBoolean());
  return info.Env().Undefined();
}

}  // namespace

void export_opening(Napi::Env env, Napi::Object exports) {
  exports.Set("listenTcp", Napi::Function::New(env, listen_tcp));
  exports.Set("checkNoneOpen", Napi::Function::New(env, check_none_open));
  exports.Set("bindThread", Napi::Function::New(env, bind_thread));
  exports.Set("open", Napi::Function::New(env, open));
  exports.Set("close", Napi::Function::New(env, close));
  exports.Set("setKeepAlive", Napi::Function::New(env, set_keep_alive));
}

}  // namespace nbc::addon
