#include "addon/world.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <unistd.h>

#include "addon/errors.h"
#include "addon/fabrics.h"
#include "addon/reporter.h"
#include "fabric/descriptor.h"

namespace nbc::addon {
namespace {

// The process is the rank, and one of its threads has that world: mailboxes have one reader. Set by open(), cleared by
// close(). Worlds of ranks that are threads do not count.
std::atomic<bool> g_open{false};

// process.exit() on the main thread runs no cleanup of the environment, and peers would wait for this rank forever. So
// the end of the process (atexit) ends the engines that are left. Those of open worlds: each thread adds its own in
// open(), and takes it out before it destroys it. Never destroyed: workers may live until the very end.
std::mutex& g_mutex = *new std::mutex();  // guards the list, and engines in it while they are abandoned
std::vector<Engine*>& g_engines = *new std::vector<Engine*>();

void at_process_end() {
  reporter::forget_all();
  const std::lock_guard<std::mutex> guard(g_mutex);
  for (Engine* engine : g_engines) engine->abandon();
  g_engines.clear();
}

void forget_engine(Engine* engine) {
  const std::lock_guard<std::mutex> guard(g_mutex);
  std::erase(g_engines, engine);
}

// Also to ranks of this machine.
bool by_network_alone(const Opening& opening) {
  if (opening.transport == "auto") return opening.job_fd < 0 && !opening.ways.empty();
  return opening.transport != "shm";
}

// What the ranks of this machine share; null with transport 'tcp'.
// `apart`: the ranks have met over sockets.
std::shared_ptr<job::Segment> map_segment(const Opening& opening, bool apart) {
  if (opening.transport == "tcp" || (apart && by_network_alone(opening))) return nullptr;
  const Descriptor own(opening.job_fd < 0 ? job::Segment::create(1, opening.shm.exposed_bytes) : -1);
  const int fd = own ? own.get() : opening.job_fd;
  auto segment = opening.is_thread() ? job::Segment::share(fd) : job::Segment::map(fd);
  if (segment->size() != opening.size || opening.rank >= opening.size) {
    throw FabricError{"the job has " + std::to_string(segment->size()) +
                      " ranks, but this process was started as rank " + std::to_string(opening.rank) + " of " +
                      std::to_string(opening.size)};
  }
  const std::vector<Rank>& members = segment->members();
  if (!std::binary_search(members.begin(), members.end(), opening.rank))
    throw FabricError{"the memory that was given to this rank is that of another host"};
  return segment;
}

}  // namespace

World* World::of(napi_env env) {
  void* data = nullptr;
  napi_get_instance_data(env, &data);
  return static_cast<World*>(data);
}

void World::refuse_second() const { throw Refusal("ERR_NBC_ALREADY_OPEN").error(env_); }

void World::check_none_open(bool thread) const {
  if (is_open() || (!thread && g_open.load())) refuse_second();
}

void World::open(const Opening& opening, Listeners listeners, napi_value on_completions) {
  if (is_open() || (!opening.is_thread() && g_open.exchange(true))) refuse_second();
  is_process_ = !opening.is_thread();
  try {
    open_engine(opening, std::move(listeners), on_completions);
  } catch (const FabricError& error) {
    give_up();
    throw cannot_open(by_network_alone(opening) ? "ERR_NBC_TRANSPORT" : "ERR_NBC_OPEN", error).error(env_);
  } catch (const std::system_error& error) {
    give_up();
    std::string what = std::string("starting the threads of this rank: ") + error.what();
    if (error.code().value() == EAGAIN) what += "; raise the limit of threads (ulimit -u, or that of the container)";
    throw cannot_open("ERR_NBC_OPEN", {what, error.code().value()}).error(env_);
  } catch (const std::bad_alloc&) {
    give_up();
    throw cannot_open("ERR_NBC_OPEN", {"no memory for the world"}).error(env_);
  } catch (const Napi::Error&) {
    give_up();
    throw;
  }
}

void World::open_engine(const Opening& opening, Listeners listeners, napi_value on_completions) {
  auto segment = map_segment(opening, static_cast<bool>(listeners));
  auto slots = std::make_shared<SlotTable>();
  if (!slots->valid()) throw FabricError{"no memory for the state table"};
  queued_ = std::make_shared<std::atomic<bool>>(false);
  napi_value name;
  if (napi_create_string_utf8(env_, "node-nbc completions", NAPI_AUTO_LENGTH, &name) != napi_ok ||
      napi_create_threadsafe_function(env_, on_completions, nullptr, name, 0, 1, nullptr, nullptr, nullptr,
                                      call_javascript, &to_javascript_) != napi_ok)
    throw Napi::Error::New(env_);
  napi_unref_threadsafe_function(env_, to_javascript_);
  std::unique_ptr<job::Watch> watch;
  if (segment != nullptr && !opening.neighbours.empty())
    watch = std::make_unique<job::Watch>(segment, opening.neighbours);
  engine_ = std::make_unique<Engine>(make_fabric(opening, std::move(listeners), segment), opening.engine, slots,
                                     [this] { notify(); });
  // Ranks that are threads of one process stop together.
  std::unique_ptr<job::Pulse> pulse;
  try {
    if (segment != nullptr && opening.threads < opening.size && opening.size > 1)
      pulse = std::make_unique<job::Pulse>(std::move(segment), opening.rank, opening.peer_timeout);
  } catch (...) {
    engine_.reset();
    throw;
  }
  slots_ = std::move(slots);
  if (const int descriptor = engine_->open_loop(); descriptor >= 0) {
    poll_ = EventLoopPoll::start(env_, descriptor, on_completions);
    if (poll_ == nullptr) engine_->forgo_loop();
  }
  watch_ = std::move(watch);
  pulse_ = std::move(pulse);
  static const int registered = std::atexit(at_process_end);
  static_cast<void>(registered);
  {
    const std::lock_guard<std::mutex> guard(g_mutex);
    g_engines.push_back(engine_.get());
  }
  reporter::report(*engine_, opening);
  // Registered after the thread-safe function, so it runs before Node.js takes that away: the progress thread must end
  // first.
  napi_add_env_cleanup_hook(env_, at_environment_end, this);
}

// After a failure in open().
void World::give_up() {
  if (to_javascript_ != nullptr) napi_release_threadsafe_function(to_javascript_, napi_tsfn_abort);
  to_javascript_ = nullptr;
  if (is_process_) g_open.store(false);
}

void World::close(bool environment_ends) {
  if (!is_open()) return;
  napi_remove_env_cleanup_hook(env_, at_environment_end, this);
  forget_engine(engine_.get());
  reporter::forget(*engine_);
  watch_.reset();
  pulse_.reset();
  poll_.reset();
  engine_.reset();
  copies_.drop_all(environment_ends);
  stores_.clear();
  groups_.clear();
  free_groups_.clear();
  plans_.clear();
  free_plans_.clear();
  slots_.reset();
  napi_release_threadsafe_function(to_javascript_, napi_tsfn_release);
  to_javascript_ = nullptr;
  if (is_process_) g_open.store(false);
}

void World::at_environment_end(void* world) { static_cast<World*>(world)->close(true); }

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
  napi_value ignored;
  if (napi_call_function(env, undefined, callback, 0, nullptr, &ignored) == napi_pending_exception) {
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
uint32_t World::add_plan(Startable plan) {
  return add_handle(plans_, free_plans_, std::make_shared<const Startable>(std::move(plan)));
}
void World::free_group(uint32_t handle) { free_handle(groups_, free_groups_, handle); }
void World::free_plan(uint32_t handle) { free_handle(plans_, free_plans_, handle); }

std::shared_ptr<Group> World::group(uint32_t handle) const {
  return handle < groups_.size() ? groups_[handle] : nullptr;
}

const Startable* World::plan(uint32_t handle) const { return handle < plans_.size() ? plans_[handle].get() : nullptr; }

}  // namespace nbc::addon
