#include "addon/world.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <string>
#include <system_error>
#include <unistd.h>

#include "fabric/mixed/mixed_fabric.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fabric/verbs/available.h"
#if NBC_HAS_VERBS
#include "fabric/verbs/host_bootstrap.h"
#include "fabric/verbs/verbs_fabric.h"
#endif

namespace nbc::addon {
namespace {

// The process is the rank: mailboxes have one reader. Set by open(), cleared by close().
std::atomic<bool> g_open{false};

// process.exit() on the main thread runs no cleanup of the environment, so peers would wait for this rank for good. The
// C library's end of the process comes to this. The open world's engine, or null: stored by open() and close() on its
// JavaScript thread.
std::atomic<Engine*> g_engine{nullptr};

void at_process_end() {
  if (Engine* engine = g_engine.exchange(nullptr)) engine->abandon();
}

Napi::Error coded(napi_env env, const char* code, const std::string& message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, code));
  return error;
}

// Only 'auto' asks which host a rank is on.
shm::ShmOptions shm_options(const World::Options& options) {
  return {options.rank, options.engine.libof.eager_limit, options.cross_memory, options.transport == "auto",
          options.host};
}

}  // namespace

void World::refuse_second() const {
  throw coded(
      env_, "ERR_NBC_ALREADY_OPEN",
      "init: this process has an open world, perhaps in another thread, and all its threads can have one together. "
      "Communicate in the thread that called init() and pass data to it, or start more ranks; or close that world "
      "first");
}

void World::check_none_open() const {
  if (g_open.load()) refuse_second();
}

void World::open(const Options& options, tcp::Socket listener, napi_value on_completions) {
  if (is_open() || g_open.exchange(true)) refuse_second();
  try {
    std::shared_ptr<shm::Segment> segment;
    if (options.transport == "tcp") {
      // Ranks share nothing.
    } else if (options.job_fd < 0) {
      const int fd = shm::Segment::create(1);
      segment = shm::Segment::map(fd);
      ::close(fd);
    } else {
      segment = shm::Segment::map(options.job_fd);
    }
    if (segment != nullptr && (segment->size() != options.size || options.rank >= options.size))
      throw FabricError{"the job has " + std::to_string(segment->size()) +
                        " ranks, but this process was started as rank " + std::to_string(options.rank) + " of " +
                        std::to_string(options.size)};
    auto slots = std::make_shared<SlotTable>();
    if (!slots->valid()) throw FabricError{"no memory for the state table"};
    queued_ = std::make_shared<std::atomic<bool>>(false);
    napi_value name;
    if (napi_create_string_utf8(env_, "node-nbc completions", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_threadsafe_function(env_, on_completions, nullptr, name, 0, 1, nullptr, nullptr, nullptr,
                                        call_javascript, &to_javascript_) != napi_ok)
      throw Napi::Error::New(env_);
    napi_unref_threadsafe_function(env_, to_javascript_);
    std::unique_ptr<shm::Watch> watch;
    if (segment != nullptr && !options.neighbours.empty())
      watch = std::make_unique<shm::Watch>(segment, options.neighbours);
    engine_ = std::make_unique<Engine>(make_fabric(options, std::move(listener), std::move(segment)), options.engine,
                                       slots, [this] { notify(); });
    slots_ = std::move(slots);
    watch_ = std::move(watch);
    static const int registered = std::atexit(at_process_end);
    static_cast<void>(registered);
    g_engine.store(engine_.get());
    // Registered after the thread-safe function, so it runs before Node.js takes that away: the progress thread must
    // end first.
    napi_add_env_cleanup_hook(env_, at_environment_end, this);
  } catch (const FabricError& error) {
    give_up();
    throw coded(env_, options.transport == "verbs" || options.transport == "tcp" ? "ERR_NBC_TRANSPORT" : "ERR_NBC_OPEN",
                error.message);
  } catch (const std::system_error& error) {
    give_up();
    throw coded(env_, "ERR_NBC_OPEN", std::string("starting the progress thread: ") + error.what());
  } catch (const std::bad_alloc&) {
    give_up();
    throw coded(env_, "ERR_NBC_OPEN", "no memory for the world");
  } catch (const Napi::Error&) {
    give_up();
    throw;
  }
}

// After a failure in open().
void World::give_up() {
  if (to_javascript_ != nullptr) napi_release_threadsafe_function(to_javascript_, napi_tsfn_abort);
  to_javascript_ = nullptr;
  g_open.store(false);
}

std::unique_ptr<FarFabric> World::make_tcp(const Options& options, tcp::Socket listener,
                                           const std::shared_ptr<ExposedMemory>& exposed) {
  const Options::Tcp& given = options.tcp;
  tcp::Job job;
  job.listener = std::move(listener);
  if (given.addresses.size() != options.size || given.ports.size() != options.size ||
      given.hosts.size() != options.size)
    throw FabricError{"transport 'tcp': the addresses of all ranks are needed"};
  job.rank = options.rank;
  for (Rank rank = 0; rank < options.size; ++rank)
    job.addresses.push_back(tcp::parse_address(given.addresses[rank], static_cast<uint16_t>(given.ports[rank])));
  job.hosts = given.hosts;
  job.processors = std::max(given.processors, 1u);
  job.key = given.secret;
  tcp::TcpOptions tcp;
  tcp.eager_limit = options.engine.libof.eager_limit;
  return std::make_unique<tcp::TcpFabric>(std::move(job), tcp, exposed);
}

// Shared memory between ranks of one host, TCP to all others; who is where was found out when they met.
std::unique_ptr<Fabric> World::make_beside_tcp(const Options& options, tcp::Socket listener,
                                               std::shared_ptr<shm::Segment> segment) {
  auto near =
      std::make_unique<shm::ShmFabric>(std::move(segment), shm_options(options), shm::ShmFabric::Opening::later);
  auto far = make_tcp(options, std::move(listener), near->memory());
  const std::vector<uint32_t>& hosts = options.tcp.hosts;
  std::vector<shm::Way> ways;
  for (const uint32_t host : hosts) ways.push_back(host == hosts[options.rank] ? shm::Way::near : shm::Way::far);
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far), std::move(ways));
}

std::unique_ptr<Fabric> World::make_fabric(const Options& options, tcp::Socket listener,
                                           std::shared_ptr<shm::Segment> segment) {
  if (options.transport == "tcp") return make_tcp(options, std::move(listener), nullptr);
  if (listener) return make_beside_tcp(options, std::move(listener), std::move(segment));
  if (options.transport == "verbs") return make_verbs(options, std::move(segment), nullptr);
  // Where no host is named, all ranks are on this one, and nothing is spent on a network.
  if (options.transport == "auto" && !options.host.empty() && options.size > 1)
    return make_mixed(options, std::move(segment));
  return std::make_unique<shm::ShmFabric>(std::move(segment), shm_options(options));
}

// Shared memory and, where there is an active device, verbs.
std::unique_ptr<Fabric> World::make_mixed(const Options& options, std::shared_ptr<shm::Segment> segment) {
  auto near = std::make_unique<shm::ShmFabric>(segment, shm_options(options), shm::ShmFabric::Opening::later);
  std::unique_ptr<FarFabric> far;
  try {
    far = make_verbs(options, std::move(segment), near->arena());
  } catch (const FabricError& error) {
    // Nobody may need it. Who does is told then.
    near->open(false, error.message);
    return near;
  }
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far));
}

// `exposed`: part of a rank that is also on shared memory, and opened with that; null: it is alone.
std::unique_ptr<FarFabric> World::make_verbs(const Options& options, std::shared_ptr<shm::Segment> segment,
                                             const std::shared_ptr<ExposedMemory>& exposed) {
#if NBC_HAS_VERBS
  using verbs::HostBootstrap;
  verbs::VerbsOptions verbs;
  verbs.device = {options.verbs_device, options.verbs_port, options.verbs_gid_index};
  verbs.eager_limit = options.engine.libof.eager_limit;
  verbs.eager = options.verbs_sends ? verbs::Eager::send : verbs::Eager::write;
  verbs.cache_entries = static_cast<size_t>(options.verbs_cache_entries);
  verbs.cache_bytes = static_cast<size_t>(options.verbs_cache_bytes);
  auto bootstrap =
      std::make_unique<HostBootstrap>(std::move(segment), options.rank, verbs.eager_limit,
                                      exposed == nullptr ? HostBootstrap::Line::ours : HostBootstrap::Line::of_others);
  return std::make_unique<verbs::VerbsFabric>(std::move(bootstrap), verbs, exposed);
#else
  static_cast<void>(options);
  static_cast<void>(segment);
  static_cast<void>(exposed);
  throw FabricError{
      "transport 'verbs' is not in this build: it was made without the headers of libibverbs. Install them "
      "(Debian: apt install libibverbs-dev) and build again"};
#endif
}

void World::close() {
  if (!is_open()) return;
  napi_remove_env_cleanup_hook(env_, at_environment_end, this);
  g_engine.store(nullptr);
  watch_.reset();
  engine_.reset();
  groups_.clear();
  free_groups_.clear();
  plans_.clear();
  free_plans_.clear();
  slots_.reset();
  napi_release_threadsafe_function(to_javascript_, napi_tsfn_release);
  to_javascript_ = nullptr;
  g_open.store(false);
}

void World::at_environment_end(void* world) { static_cast<World*>(world)->close(); }

void World::set_keep_alive(bool on) {
  if (on) {
    napi_ref_threadsafe_function(env_, to_javascript_);
  } else {
    napi_unref_threadsafe_function(env_, to_javascript_);
  }
}

// Any thread, while the engine lives.
void World::notify() {
  // acq_rel: pairs with the store in call_javascript(); the states were written before
  if (queued_->exchange(true, std::memory_order_acq_rel)) return;
  auto* queued = new std::shared_ptr<std::atomic<bool>>(queued_);
  if (napi_call_threadsafe_function(to_javascript_, queued, napi_tsfn_nonblocking) != napi_ok) delete queued;
}

void World::call_javascript(napi_env env, napi_value callback, void* /*context*/, void* data) {
  const std::unique_ptr<std::shared_ptr<std::atomic<bool>>> queued(
      static_cast<std::shared_ptr<std::atomic<bool>>*>(data));
  (*queued)->store(false, std::memory_order_release);
  if (env == nullptr) return;
  napi_value undefined;
  napi_get_undefined(env, &undefined);
  if (napi_call_function(env, undefined, callback, 0, nullptr, nullptr) == napi_pending_exception) {
    napi_value exception;
    if (napi_get_and_clear_last_exception(env, &exception) == napi_ok) napi_fatal_exception(env, exception);
  }
}

namespace {

template <typename T>
uint32_t add_handle(std::vector<std::shared_ptr<T>>& table, std::vector<uint32_t>& free, std::shared_ptr<T> item) {
  if (!free.empty()) {
    const uint32_t handle = free.back();
    free.pop_back();
    table[handle] = std::move(item);
    return handle;
  }
  table.push_back(std::move(item));
  return static_cast<uint32_t>(table.size() - 1);
}

template <typename T>
void free_handle(std::vector<std::shared_ptr<T>>& table, std::vector<uint32_t>& free, uint32_t handle) {
  if (handle >= table.size() || table[handle] == nullptr) return;
  table[handle].reset();
  free.push_back(handle);
}

}  // namespace

uint32_t World::add_group(std::shared_ptr<Group> group) { return add_handle(groups_, free_groups_, std::move(group)); }
uint32_t World::add_plan(std::shared_ptr<LoadedPlan> plan) { return add_handle(plans_, free_plans_, std::move(plan)); }
void World::free_group(uint32_t handle) { free_handle(groups_, free_groups_, handle); }
void World::free_plan(uint32_t handle) { free_handle(plans_, free_plans_, handle); }

std::shared_ptr<Group> World::group(uint32_t handle) const {
  return handle < groups_.size() ? groups_[handle] : nullptr;
}

const std::shared_ptr<LoadedPlan>* World::plan(uint32_t handle) const {
  return handle < plans_.size() && plans_[handle] != nullptr ? &plans_[handle] : nullptr;
}

}  // namespace nbc::addon
