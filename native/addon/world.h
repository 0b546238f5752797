// What one JavaScript environment has open: the engine and the handles given to JavaScript. One per process at a time.
#pragma once
#include <napi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "job/segment.h"
#include "job/watch.h"
#include "fabric/tcp/socket.h"

namespace nbc::addon {

class World {
 public:
  struct Options {
    Rank rank;
    Rank size;
    int job_fd;             // -1: a job of its own
    std::string transport;  // "auto", "shm", "tcp" or "verbs"
    std::string host;       // ranks with equal ones are on one host; empty: the machine
    bool cross_memory;
    std::string verbs_device;  // empty, 0, −1: the best
    uint8_t verbs_port;
    int verbs_gid_index;
    bool verbs_sends;            // eager 'send'
    double verbs_cache_entries;  // the most that the registration cache holds
    double verbs_cache_bytes;
    struct Tcp {
      std::vector<std::string> addresses;  // of all ranks: numeric, without port
      std::vector<uint32_t> ports;
      std::vector<uint32_t> hosts;  // of all ranks: equal numbers, equal machines
      uint32_t processors = 1;      // for all ranks of this machine
      std::string secret;
    } tcp;
    std::vector<uint32_t> neighbours;  // processes of ranks to be watched, by rank; 0: not (shm/watch.h)
    EngineOptions engine;
  };

  explicit World(napi_env env) : env_(env) {}
  ~World() { close(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Throws Napi::Error if this process has an open world already.
  void check_none_open() const;
  // `listener`: where this rank listens, if any rank is reached by TCP. Throws Napi::Error.
  void open(const Options& options, tcp::Socket listener, napi_value on_completions);
  void close();
  bool is_open() const { return engine_ != nullptr; }
  Engine& engine() { return *engine_; }
  const std::shared_ptr<SlotTable>& slots() const { return slots_; }
  std::shared_ptr<ExposedMemory> memory() const { return engine_->fabric().memory(); }
  void set_keep_alive(bool on);

  uint32_t add_group(std::shared_ptr<Group> group);
  std::shared_ptr<Group> group(uint32_t handle) const;  // null: no such group
  void free_group(uint32_t handle);
  uint32_t add_plan(std::shared_ptr<LoadedPlan> plan);
  const std::shared_ptr<LoadedPlan>* plan(uint32_t handle) const;  // null: no such plan
  void free_plan(uint32_t handle);

 private:
  [[noreturn]] void refuse_second() const;
  static std::unique_ptr<Fabric> make_fabric(const Options& options, tcp::Socket listener,
                                             std::shared_ptr<shm::Segment> segment);
  static std::unique_ptr<FarFabric> make_tcp(const Options& options, tcp::Socket listener,
                                             const std::shared_ptr<ExposedMemory>& exposed);
  static std::unique_ptr<Fabric> make_beside_tcp(const Options& options, tcp::Socket listener,
                                                 std::shared_ptr<shm::Segment> segment);
  static std::unique_ptr<Fabric> make_mixed(const Options& options, std::shared_ptr<shm::Segment> segment);
  static std::unique_ptr<FarFabric> make_verbs(const Options& options, std::shared_ptr<shm::Segment> segment,
                                               const std::shared_ptr<ExposedMemory>& exposed);
  static void call_javascript(napi_env env, napi_value callback, void* context, void* data);
  static void at_environment_end(void* world);
  void give_up();
  void notify();

  napi_env env_;
  std::shared_ptr<SlotTable> slots_;
  std::unique_ptr<shm::Watch> watch_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::shared_ptr<Group>> groups_;
  std::vector<uint32_t> free_groups_;
  std::vector<std::shared_ptr<LoadedPlan>> plans_;
  std::vector<uint32_t> free_plans_;
  napi_threadsafe_function to_javascript_ = nullptr;
  // A call to JavaScript is queued: set by whoever ends a watched request, cleared by the event loop before it looks at
  // the states.
  std::shared_ptr<std::atomic<bool>> queued_;
};

}  // namespace nbc::addon
