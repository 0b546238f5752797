// The engine: executes plans and single messages over LibOF, and decides who drives.
//
// Ownership. Everything below is guarded by one lock, and its holder drives: the calling thread inside start,
// test and wait, otherwise the progress thread. Most programs that leave start are back in wait within a microsecond,
// and then a progress thread that was woken in between costs more than it brings. So the calling thread only notes that
// it left something *unattended*, and the progress thread, which dozes (looks once in a while) as long as this happens,
// takes over when the calling thread has not been back for a whole doze. It then drives, arms the doorbell, and sleeps
// until a peer rings. With nothing left but messages that land by themselves, there is nothing to take over.
//
// The event loop. What is awaited is *watched*: its slot is noted when it ends. The calling thread first looks for a
// bounded while (look), then arms the doorbell for the event loop (rest), which a peer wakes by a descriptor. Whether
// the event loop then sleeps or computes, nobody knows. So this is left unattended like everything else, and the
// progress thread dozes. When it stops dozing and the bell has not rung, it has itself woken together with the event
// loop; if it has rung and the calling thread has not been back for a whole doze, it takes over. Where there is no
// descriptor, rest() hands over to the progress thread.
//
// Threads: one calling thread (the JavaScript thread that opened the world), one progress thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/local_work.h"
#include "engine/lock.h"
#include "engine/meter.h"
#include "engine/placement.h"
#include "engine/plan.h"
#include "engine/slots.h"
#include "engine/spin_history.h"
#include "engine/status.h"
#include "engine/temporary.h"
#include "engine/trace.h"
#include "engine/user_work.h"
#include "fabric/fabric.h"
#include "libof/libof.h"

namespace nbc {

struct EngineOptions {
  libof::Options libof;
  bool progress_thread = true;
  uint32_t wait_on_send_us = 0;  // how long a rendezvous send polls for its RTR
  uint32_t startall_us = 0;      // how long a started round drives all its sends until none waits for an RTR
  uint32_t trace_events = 0;     // how many are kept of each list; 0: there is no trace

  template <typename Reader>
  void read_options(Reader& from) {
    libof.read_options(from);
    from.choice("progress", progress_thread, {{"thread", true}, {"manual", false}});
    from("waitOnSend", wait_on_send_us);
    from("startall", startall_us);
    from("traceEvents", trace_events);
  }
};

struct EngineCounters {
  uint64_t started = 0;
  uint64_t rounds = 0;
  uint64_t progress_wakeups = 0;  // of the progress thread
  uint64_t progress_passes = 0;   // passes it drove
  uint64_t loop_wakeups = 0;      // of the event loop, by peers
};

// What a peer has told of a call that this rank has not made yet.
struct ToldCall {
  uint32_t tag = 0;
  KnownCall call;  // no signature: nothing was told
  Rank rank = 0;   // the peer
};

// Of a communicator that was closed here.
struct ClosedCalls {
  uint64_t context = 0;
  uint32_t next_tag = 0;  // of the first call that this rank has not made
};

// A group of ranks with a context of its own.
struct Group {
  std::vector<Rank> members;                    // world ranks
  Rank rank;                                    // ours in the group
  uint64_t context;                             // collectives; + 1 is point-to-point, + 2 persistent collectives
  uint32_t next_tag = 0;                        // of the next call: a collective, or an Init of one; wraps
  std::unordered_map<uint64_t, uint32_t> sent;  // point-to-point: messages by (world rank, tag)
  std::unordered_map<uint64_t, uint32_t> received;
  // The calls before the next one, and what is told of those from it on: by tag modulo the length, which is a power of
  // two and grows. Beyond kMostCalls nothing is known. A rank may be ahead of a peer by as many messages as its window
  // and its mailbox hold.
  static constexpr uint32_t kFewestCalls = 32;
  static constexpr uint32_t kMostCalls = 2048;
  std::vector<KnownCall> made;
  std::vector<ToldCall> told;
  std::unordered_map<uint32_t, KnownCall> inits;  // this rank's, by tag: they may be started long after
  bool known = false;                             // to the engine
  bool mismatched = false;                        // two calls differ, or it is revoked: no collective runs any more
  bool reported = false;                          // that, to the program
  Mismatch mismatch;
  bool failed = false;  // one of its collectives, so that messages may be left over
  bool revoked() const { return mismatched && mismatch.revoked(); }
};

// A plan in use: shared by its owner in JavaScript and by the operations that run it.
struct LoadedPlan {
  Plan plan;
  std::string name;             // of the operation that it was made for: for traces and reports
  uint32_t source = kNoSource;  // its own, in the trace of its engine
  std::shared_ptr<Group> group;
  UserOperator op;                           // what its REDUCE elements with the operator USER mean
  KnownCall call;                            // that it is for
  uint64_t bytes = Mismatch::kUnknownBytes;  // that its caller names; unknown: the sizes may differ from rank to rank
  bool messages = false;                     // its transfers are point-to-point messages: see start_messages()

  // With a size in which all ranks agree: messages of another length are those of another call.
  void is_for(Signature signature, uint64_t size) {
    bytes = size;
    // Knuth's multiplier: the upper half of the product depends on all lower bits.
    const auto hash = static_cast<uint32_t>((size + 1) * 0x9e3779b97f4a7c15u >> 32) | 1;
    call = {signature, signature != 0 && size != Mismatch::kUnknownBytes ? hash : 0};
  }

  static constexpr uint32_t kNoSource = UINT32_MAX;  // nobody has asked for it
  uint32_t source_in(Trace& trace) {
    if (source == kNoSource) source = trace.source_of(name, messages ? nullptr : &plan);
    return source;
  }
};

// What a pending request waits for.
struct Awaited {
  uint32_t round = 0;       // of a collective: the one that has begun, from 1 on
  uint32_t rounds = 0;      // 0: a message
  bool function = false;    // the function of its operator
  std::vector<Rank> peers;  // ranks of the world whose messages have not come, or who have not taken ours; ascending
};

class Engine : private libof::Calls, private libof::Observer {
 public:
  // `notify` is called, from either thread and without the lock, after watched requests have ended, unless the call
  // that saw them end gives their slots back itself.
  Engine(std::unique_ptr<Fabric> fabric, const EngineOptions& options, std::shared_ptr<SlotTable> slots,
         std::function<void()> notify);
  // Pending requests end with Error::closed. Their memory stays allocated for good, because a peer may still write to
  // it.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The process is about to end without closing: stops moving data, and tells the peers. Nothing else may be called
  // afterwards.
  void abandon();

  // All of these: calling thread. `slot`: a free slot. True: complete already, and the slot was not touched.
  bool start(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive);
  // The same with buffers that the caller keeps and will start it with again.
  bool start(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, const Pinned (&bound)[2]);
  // As start, of a plan that was compiled for messages: they meet those of isend and irecv.
  bool start_messages(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive,
                      uint32_t send_tag, uint32_t receive_tag);
  bool isend(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag);
  bool irecv(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag);

  // Persistent requests keep slot, plan and buffers until release(). In between, restart() starts them, as often as one
  // likes; the state of one that is not active stays as its last end has left it, done at first. A collective takes its
  // tag here: ranks match them in the order of these calls. Messages are matched in the order of their starts.
  void prepare(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive);
  void prepare_messages(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, Pinned send, Pinned receive,
                        uint32_t send_tag, uint32_t receive_tag);
  void prepare_message(std::shared_ptr<Group> group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag, bool sends);
  enum class Restart { refused, pending, ended };  // refused: there is none in this slot, or it is active
  Restart restart(uint32_t slot);
  // What is active goes on to its end, and then gives its buffers back.
  void release(uint32_t slot);

  // Peers may speak of its calls from now on, until it is forgotten. A start does this, too, for a group that is new.
  void know_from_now(const std::shared_ptr<Group>& group);
  // Ends the communicator on all of its ranks: what is pending there fails, and what is started later.
  void revoke(Group& group);
  // Before the world is closed, or the communicator of a group, which is forgotten: what has come and nobody has asked
  // for. A mismatch of calls that no request has told, or what is left over; null: of any communicator.
  RequestFailure last_look(const Group* of = nullptr);

  void test();
  // Until all (or any) of the slots are not pending: true. After the limit (negative: none): false.
  bool wait(const uint32_t* slots, size_t count, bool all, int64_t nanoseconds);
  void startall(const uint32_t* slots, size_t count, uint32_t microseconds);
  // Takes `count` slots out of the exchange of the slot table and watches what is pending there. Then drives progress
  // until something that is watched has ended, for so long at most (0: one pass), and less where waiting is in vain or
  // keeps a peer from running. Puts slots of watched requests that have ended into the exchange; how many. If it is
  // full, there may be more.
  size_t look(size_t count, int64_t nanoseconds);
  // From now on the descriptor wakes the event loop; -1: there is none, and the progress thread calls `notify`.
  int open_loop();
  void forgo_loop();  // as if there were none
  // Before the event loop sleeps. False: something that is watched has ended, so look again instead.
  bool rest();
  // What is known about the request that failed in this slot, until the slot is used again.
  RequestFailure failure(uint32_t slot);

  const Fabric& fabric() const { return *fabric_; }
  libof::LibOF& libof() { return libof_; }  // for tests, before the first request
  // Where the functions of operators are run. While pieces wait for the calling thread, wait() returns false early.
  UserWork& user_work() { return *user_work_; }
  // What the request in a slot waits for; all zero if there is none, or if it has ended.
  Awaited awaited(uint32_t slot);
  // What this rank does and waits for, from a thread that neither drives nor calls the rest; one such thread at a time.
  // Nothing if the thread that drives does not answer within that time. The thread that answers also turns the meter
  // of the monitor on or off, if that is wanted.
  enum class Metering : uint8_t { as_it_is, on, off };
  std::optional<Status> ask(int64_t milliseconds, Metering metering = Metering::as_it_is);
  // For the program: what the meter has counted. The first call turns it on for good.
  Metered metered();
  // What has happened so far; nothing if there is no trace.
  Trace::Lists read_trace();
  // Adds all counters to the visitor; takes the lock.
  void visit_counters(const CounterVisitor& visit);
  // By rank.
  std::vector<Network> networks();

 private:
  // In bytes of a plain copy (Local::cost()). A round with less local work than kAtOnce does it where it starts; one
  // start or pass does no more of it than that. A start looks after all work if there is less than kShortWork.
  static constexpr uint64_t kAtOnce = 16 * 1024;
  static constexpr uint64_t kShortWork = 256 * 1024;
  static constexpr uint32_t kShortPasses = 8;  // a start's
  // While its LocalTask is in local_work_, or a piece of it in user_work_, that counts as one outstanding message.
  struct Operation : libof::RequestOwner, LocalTask {
    std::shared_ptr<LoadedPlan> loaded;  // null: a single message
    uint32_t round = 0;                  // next round to start
    uint32_t slot = 0;
    Trace::Record* traced = nullptr;  // null: there is none
    int64_t began = 0;                // now_milliseconds() at its start, for reports
    uint32_t tag = 0;
    uint64_t context = 0;
    uint32_t repetition = 0;  // number of the start of a persistent collective, from 0; wraps
    // Of a plan for messages: what the message that it sends, and the one that it receives, are known by. Each start
    // gives them the next sequences.
    libof::MessageKey send_key;
    libof::MessageKey receive_key;
    TemporaryPool::Block temporary;
    uint64_t ticket = 0;  // of the piece that is in user_work_; 0: none is
    uint64_t given = 0;   // bytes of that piece
    Pinned buffers[2];    // of the user: what RequestOwner::pins points to
    bool persistent = false;
    bool keeps_buffers = false;  // they are bound to a plan, which comes again
    bool watched = false;        // its slot goes to `ended_` at its end
    bool last_round = false;     // nothing is left to start
    bool told = false;           // it has failed, and its peers learn of that
    uint32_t waited = 0;         // the round in which it was seen to wait, and in which peers were asked
    uint32_t asked = 0;
    bool starting = false;  // inside start(): completion is the return value
    Operation* previous = nullptr;
    Operation* next = nullptr;

    void use(const std::shared_ptr<LoadedPlan>& with, Pinned send, Pinned receive);
    void use_bound(const std::shared_ptr<LoadedPlan>& with, const Pinned (&bound)[2]);
    void use_tags(uint32_t send_tag, uint32_t receive_tag);
    void is_of_its_plan(Signature kind) {
      signature = loaded->call.signature != 0 ? loaded->call.signature | kind : 0;
      sized = loaded->call.size_hash != 0;
    }
    KnownCall call() const { return {signature, loaded->call.size_hash}; }
  };

  struct Persistent {
    Operation* operation;
    std::shared_ptr<Group> group;
    // Of a message without a plan.
    uint32_t* count = nullptr;  // messages of its peer and tag so far: in the group
    Rank peer = 0;              // world rank
    bool sends = false;
  };

  Operation& take_operation(uint32_t slot);
  void activate(Operation& operation);
  Operation& new_operation(uint32_t slot);
  template <typename Use>
  bool start_plan(const std::shared_ptr<LoadedPlan>& plan, uint32_t slot, const Use& use);
  Operation& new_persistent(uint32_t slot, std::shared_ptr<Group> group);
  void run_plan(Operation& operation);
  void note_start(Operation& operation, uint32_t source);
  void refuse_memory(Operation& operation, uint64_t bytes);
  void run_messages(Operation& operation);
  void refuse_message(Operation& operation);
  void run_message(Operation& operation, Rank peer, const libof::MessageKey& key, bool sends);
  bool after_start(uint32_t slot);
  void advance(Operation& operation);
  static Combining combining_of(const Operation& operation, const Transfer& t);
  void start_round(Operation& operation, const Round& round);
  void start_receives(Operation& operation, const Round& round);
  void start_sends(Operation& operation, const Round& round);
  void start_local_work(Operation& operation, const Round& round);
  void go_on_locally(Operation& operation);
  void give_to_function(Operation& operation, const Local& local);
  bool take_results();
  void take_result(Operation& operation, UserPiece& result);
  bool withdraw(Operation& operation);
  void end_failed(Operation& operation);
  void advance_ready();
  bool has_work() const { return local_work_.cost() > 0 || temporary_.surplus() > 0 || fabric_->has_work(); }
  bool has_short_work() const;
  bool work_locally(uint64_t most);
  void report_failure(Operation& operation);
  Status describe(Status::Caller caller) const;
  void set_metering(Metering metering, bool in_wait);
  void set_metering(uint8_t listeners);
  libof::Observer* observer();
  // While the meter is on.
  void moved(libof::Request& request, libof::State state) override;
  void at_once(const libof::RequestOwner& owner, const libof::MessageInfo& message, libof::State first) override;
  void time_passes() {
    if (trace_ != nullptr) trace_->time_passes();
  }
  void add_counters(const CounterVisitor& visit) const;
  void answer_if_asked();
  void spread_failure(Operation& operation);
  bool awaits_notice(const Operation& operation);
  bool stop_awaiting();
  // Calls that differ: calls.cc.
  void note_call(Group& group, const Operation& operation);
  void know(const std::shared_ptr<Group>& group);
  Group* open_group(uint64_t context) const;
  Group* group_of(uint64_t context) const;
  Group* group_of(const Operation& operation) const;
  bool is_pending(const Group& group) const;
  void close_group(const Group& group);
  static bool ends(const Group& group, const Operation& operation);
  bool differs(const libof::MessageKey& key, Rank peer, const KnownCall& theirs, Mismatch& out) override;
  bool is_closed_without(uint64_t context, uint32_t tag) const;
  void end_waits(const Group& group);
  bool knows(uint64_t context) const override { return open_group(context) != nullptr; }
  void mismatch(Mismatch& found, bool told) override;
  void settle_mismatches();
  bool ask_peers();
  static void grow_told(Group& group, uint32_t ahead);
  bool left_over(const Group& group, Mismatch& out) const;
  libof::MessageKey key_of(const Operation& operation, const Transfer& transfer) const;
  void close_operations();
  void finish(Operation& operation);
  void give_back(Operation& operation);
  void poll_for_rtr(Operation& operation, uint32_t target, uint32_t microseconds);
  bool message(Group& group, uint32_t slot, Pinned buffer, Rank peer, uint32_t tag, bool sends);
  Operation* pending(uint32_t slot) const;

  class Spinning;  // in driving.cc
  class TracedCall;
  bool pass(Effort effort, uint64_t most_local = LocalWork::kPiece);
  bool last_pass(Effort effort);
  bool settled(const uint32_t* slots, size_t count, bool all) const;
  bool background_needed() const;
  uint32_t arrivals_needed(bool waiting) const;
  bool looks_again(uint32_t need) const { return need > 1 || asks_ || libof_.is_revoking(); }
  void leave();
  void hand_over();
  void unlock_and_notify();
  void enter();
  void watch(uint32_t slot);
  void note_end(uint32_t slot);
  size_t take_ended();
  void drive_until_ended(int64_t nanoseconds);
  void look_further();
  void measure_crowd();
  int64_t doze(uint32_t uneventful) const;
  void entered();
  void background();
  bool drive();

  std::unique_ptr<Fabric> fabric_;
  EngineOptions options_;
  libof::LibOF libof_;
  std::shared_ptr<SlotTable> slots_;
  std::function<void()> notify_;
  EngineLock lock_;
  TemporaryPool temporary_;
  LocalWork local_work_;
  std::shared_ptr<UserWork> user_work_;
  std::unordered_map<uint64_t, Operation*> given_;  // by ticket: operations with a piece in user_work_
  uint64_t last_ticket_ = 0;
  uint32_t with_threads_ = 0;  // of given_, those whose function has a thread of its own
  // By slot: why an operation failed here, where only this rank knows that; until it is reported.
  std::unordered_map<uint32_t, std::string> reasons_;
  uint64_t at_once_ = 0;  // how much local work the current call may still do where it finds it
  std::deque<Operation> pool_;
  libof::List<Operation> free_;
  libof::List<Operation> active_;
  SlotMemory by_slot_memory_{kSlots * sizeof(Operation*)};
  Operation** const by_slot_ = static_cast<Operation**>(by_slot_memory_.data());  // of what is pending; or nullptr
  std::unordered_map<uint32_t, Persistent> persistent_;                           // by slot
  std::unordered_map<uint64_t, std::shared_ptr<Group>> groups_;  // by context, of the communicators that are open
  std::vector<std::shared_ptr<Group>> closed_groups_;            // with something pending when they were closed
  std::deque<ClosedCalls> closed_calls_;                         // the last ones
  struct NewMismatch {
    Mismatch found;
    bool told;  // by a peer
  };
  std::vector<NewMismatch> mismatches_;  // whose operations have not been settled yet
  struct Awaiting {
    const Operation* operation;
    int64_t until;  // on the clock in milliseconds
  };
  std::vector<Awaiting> awaiting_;                  // failed by a mismatch that this rank has not been told yet
  bool asks_ = false;                               // last_pass() has to ask_peers()
  int64_t ask_at_ = 0;                              // not before, on the clock in milliseconds
  std::vector<std::shared_ptr<void>> left_behind_;  // buffers of failed operations that a peer may still use
  uint32_t unfinished_rounds_ = 0;                  // active operations with rounds left to start
  uint32_t watched_ = 0;                            // active operations whose end must be told
  std::vector<uint32_t> ended_;  // slots of watched operations that have ended, until look() gives them out
  bool notify_pending_ = false;
  bool function_pending_ = false;  // a piece waits for the calling thread, which has to be told
  bool has_loop_ = false;          // the fabric can wake the event loop
  uint64_t rung_at_ = UINT64_MAX;  // `entries_` when the progress thread first saw that the event loop was rung for
  SpinHistory wait_history_;       // of the calling thread: in wait
  SpinHistory look_history_;       // and in looks, which last longer
  YieldHistory yield_history_;     // of both
  Placement placement_{system_processors()};
  bool loop_armed_ = false;        // the doorbell was armed for the event loop, and nobody has had the engine since
  bool loop_looks_again_ = false;  // loop_armed_: the progress thread has to look again after a while
  // Ranks for each processor, rounded up. Stored by the calling thread, also read by the progress thread; nothing
  // depends on when.
  std::atomic<uint32_t> crowd_{1};
  bool crowd_known_ = false;                               // all ranks have opened, so it stays
  std::unordered_map<uint32_t, RequestFailure> failures_;  // by slot
  EngineCounters counters_;
  std::unique_ptr<Trace> trace_;  // null: none is wanted
  Meter meter_;
  uint32_t fruitless_tests_ = 0;
  uint64_t entries_ = 0;      // how often the calling thread took the engine
  uint64_t seen_ = 0;         // the same when the progress thread's doze began
  bool handed_over_ = false;  // the progress thread is responsible: the doorbell is armed for it, or it was rung
  // unattended_: the calling thread left, and something needs driving. dozing_: the progress thread looks by itself now
  // and then. Invariant: unattended_ implies dozing_, or a ring on its way. Both sides store their own and then load
  // the other's, seq_cst: the calling thread in leave(), the progress thread before it goes to sleep for good.
  std::atomic<bool> unattended_{false};
  std::atomic<bool> dozing_{false};
  // asked_: ask() wants a caller in wait() to answer. Stored by both, under answer_mutex_ or by the one that asks.
  std::atomic<bool> asked_{false};
  std::mutex answer_mutex_;  // guards answer_ and asked_metering_
  Metering asked_metering_ = Metering::as_it_is;
  std::condition_variable answered_;
  std::optional<Status> answer_;
  std::atomic<bool> stop_{false};  // stored (release) by the closing thread, loaded (acquire) by the progress thread
  std::thread thread_;
};

// One call of the calling thread, for the trace.
class Engine::TracedCall {
 public:
  TracedCall(Engine& engine, Trace::Call which)
      : trace_(engine.trace_.get()), which_(which), began_(trace_ == nullptr ? 0 : trace_->ticks()) {}
  ~TracedCall() {
    if (trace_ == nullptr || awaited_ != nullptr) return;
    const uint64_t ended = ended_ != 0 ? ended_ : trace_->ticks();
    if (record_ != nullptr) {
      trace_->ended(*record_, ended);
    } else if (started_ != nullptr) {
      trace_->started(started_->traced, began_, ended);
    } else {
      trace_->call(which_, began_, ended);
    }
  }
  TracedCall(const TracedCall&) = delete;
  TracedCall& operator=(const TracedCall&) = delete;

  // By the owner of the engine: this call starts that operation.
  void starts(const Operation& operation) {
    started_ = &operation;
    if (trace_ != nullptr) trace_->happens_at(began_);
  }
  // It ends where it has begun.
  void ends_at_once() { ended_ = began_; }
  // By the owner of the engine. What has to be written of it is written now, because a message is awaited. `operation`:
  // the only one that it waits for, or null.
  void lasts(const Operation* operation) {
    if (trace_ == nullptr) return;
    if (operation != nullptr && trace_->waits(operation->traced, began_)) {
      awaited_ = operation->traced;
    } else {
      record_ = &trace_->call(which_, began_);
    }
  }
  // By the owner of the engine: it ends with the last event.
  void ends() {
    if (trace_ == nullptr) return;
    ended_ = trace_->stamp();
    if (awaited_ != nullptr && !trace_->waited(*awaited_)) awaited_ = nullptr;
  }

 private:
  Trace* trace_;
  Trace::Call which_;
  uint64_t began_;
  uint64_t ended_ = 0;  // 0: not known yet
  Trace::Record* record_ = nullptr;
  Trace::Record* awaited_ = nullptr;  // of the operation, which has this call, too
  const Operation* started_ = nullptr;
};

}  // namespace nbc
