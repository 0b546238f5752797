// What one JavaScript environment has open: the engine and the handles given to JavaScript. One world of a process is
// its rank in a job of processes; threads that are ranks by themselves (Opening::thread) have their worlds besides.
#pragma once
#include <napi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "addon/backing_store.h"
#include "addon/copies.h"
#include "addon/event_loop.h"
#include "addon/fabrics.h"
#include "addon/opening.h"
#include "engine/engine.h"
#include "job/segment.h"
#include "job/pulse.h"
#include "job/watch.h"
#include "fabric/tcp/socket.h"

namespace nbc::addon {

// What a start finds by its handle: a plan, and the buffers that it was bound to (bindPlan).
struct Startable {
  std::shared_ptr<LoadedPlan> plan;
  bool bound = false;
  Pinned buffers[2];  // of the roles send and receive
};

class World {
 public:
  explicit World(napi_env env) : env_(env), copies_(env) {}
  ~World() { close(true); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The world of this environment, open or not.
  static World* of(napi_env env);

  // Throws Napi::Error if open() would, since a world is open already. `thread`: as in Opening.
  void check_none_open(bool thread) const;
  // Throws Napi::Error.
  void open(const Opening& opening, Listeners listeners, napi_value on_completions);
  // `environment_ends`: nothing of JavaScript is touched any more.
  void close(bool environment_ends);
  bool is_open() const { return engine_ != nullptr; }
  Engine& engine() { return *engine_; }
  Copies& copies() { return copies_; }
  RecentStores& stores() { return stores_; }
  const std::shared_ptr<SlotTable>& slots() const { return slots_; }
  std::shared_ptr<ExposedMemory> memory() const { return engine_->fabric().memory(); }
  void set_keep_alive(bool on);

  uint32_t add_group(std::shared_ptr<Group> group);
  std::shared_ptr<Group> group(uint32_t handle) const;  // null: no such group
  void free_group(uint32_t handle);
  uint32_t add_plan(Startable plan);
  const Startable* plan(uint32_t handle) const;  // null: no such plan
  void free_plan(uint32_t handle);

 private:
  [[noreturn]] void refuse_second() const;
  void open_engine(const Opening& opening, Listeners listeners, napi_value on_completions);
  static void call_javascript(napi_env env, napi_value callback, void* context, void* data);
  static void at_environment_end(void* world);
  void give_up();
  void notify();

  napi_env env_;
  Copies copies_;
  RecentStores stores_;
  std::shared_ptr<SlotTable> slots_;
  std::unique_ptr<job::Watch> watch_;
  std::unique_ptr<job::Pulse> pulse_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EventLoopPoll> poll_;  // null: the event loop is woken by the thread-safe function only
  std::vector<std::shared_ptr<Group>> groups_;
  std::vector<uint32_t> free_groups_;
  std::vector<std::shared_ptr<const Startable>> plans_;
  std::vector<uint32_t> free_plans_;
  bool is_process_ = false;  // the rank is the process: others are told so
  napi_threadsafe_function to_javascript_ = nullptr;
  // A call to JavaScript is queued: set by the thread that ends a watched request, cleared by the event loop before it
  // looks at the states.
  std::shared_ptr<std::atomic<bool>> queued_;
};

}  // namespace nbc::addon
