// A network between ranks that are threads of one process, for tests of what shares a rank with a network: asynchronous
// like RDMA (a message is seen when it is announced, and not before), and its sleepers sleep on descriptors. A mutex
// for each rank guards what others leave there.
#pragma once
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <poll.h>
#include <set>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "test/check.h"

namespace nbc::check {

class ThreadNetwork {
 public:
  explicit ThreadNetwork(Rank size) : posts_(size) {}
  Rank size() const { return static_cast<Rank>(posts_.size()); }
  // Whether somebody sleeps there, or is about to.
  bool is_armed(Rank rank) {
    const std::lock_guard<std::mutex> guard(posts_[rank].mutex);
    return posts_[rank].armed != Sleeper::nobody;
  }
  // Events that one rank sent to another.
  uint64_t sent(Rank from, Rank to) {
    const std::lock_guard<std::mutex> guard(posts_[to].mutex);
    return posts_[to].from.empty() ? 0 : posts_[to].from[from];
  }

 private:
  friend class ThreadFabric;
  struct Event {
    enum class Kind { message, immediate, closed } kind;
    Completion completion;
    size_t at = 0;  // message: where in the inbox
    std::vector<std::byte> bytes;
  };
  struct Post {
    std::mutex mutex;  // guards the rest
    std::deque<Event> events;
    std::vector<uint64_t> from;  // by sender: events
    std::set<uint32_t> revoked;  // keys of memory that this rank has taken back
    Sleeper armed = Sleeper::nobody;
    int bell[2] = {-1, -1};
  };
  std::deque<Post> posts_;
};

// Exposed memory that nobody needs to reach.
class Heap final : public ExposedMemory {
 public:
  void* allocate(size_t bytes) override { return std::calloc(1, bytes); }
  void release(void* block) override { std::free(block); }
  size_t used() const override { return 0; }
  std::string why() const override { return "no memory"; }
};

class ThreadFabric : public FarFabric {
 public:
  ThreadFabric(ThreadNetwork& network, Rank rank, std::shared_ptr<ExposedMemory> memory)
      : network_(network), rank_(rank), memory_(std::move(memory)), boxes_(network.size()), closed_(network.size()) {
    ThreadNetwork::Post& post = network_.posts_[rank_];
    const std::lock_guard<std::mutex> guard(post.mutex);
    post.from.resize(network_.size());
    for (int& bell : post.bell) bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    for (size_t i = 0; i < 2; ++i) descriptors_[i] = {post.bell[i]};
  }
  ~ThreadFabric() override {
    announce_closed();
    ThreadNetwork::Post& post = network_.posts_[rank_];
    const std::lock_guard<std::mutex> guard(post.mutex);
    for (int& bell : post.bell) close(std::exchange(bell, -1));
  }

  Rank rank() const override { return rank_; }
  Rank size() const override { return network_.size(); }
  nbc::Network network_to(Rank) const override { return nbc::Network::tcp; }
  Connect connect(Rank peer) override {
    if (boxes_[peer] == nullptr) boxes_[peer] = std::make_unique<Boxes>();
    return Connect::ready;
  }
  std::string why(Rank) const override { return "the network says so"; }
  Mailbox outbox(Rank peer) override { return mailbox(boxes_[peer]->out); }
  Mailbox inbox(Rank peer) override { return mailbox(boxes_[peer]->in); }
  bool has_closed(Rank peer) override { return closed_[peer]; }
  const std::shared_ptr<ExposedMemory>& memory() const override { return memory_; }
  bool expose(Rank, const LocalBuffer& buffer, ExposedBuffer& out) override {
    out = {reinterpret_cast<uintptr_t>(buffer.data), ++keys_, nullptr};
    ++exposed_;
    return true;
  }
  void conceal(Rank, const ExposedBuffer&) override { --exposed_; }
  // As a network card does it: nothing is written from now on.
  bool revoke(Rank, const ExposedBuffer& buffer, size_t, Error, uint64_t) override {
    const std::lock_guard<std::mutex> guard(post().mutex);
    post().revoked.insert(buffer.key);
    return true;
  }
  // The put ends with its next piece, and moves nothing.
  void retract(Rank, void* cookie, Error error, uint64_t told) override {
    for (Put& put : puts_) {
      if (put.cookie != cookie) continue;
      put.error = error;
      put.from.bytes = told;
      put.pieces = 1;
    }
  }
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override {
    const auto* from = static_cast<const std::byte*>(written);
    send(peer, {ThreadNetwork::Event::Kind::message,
                {Completion::Kind::message, Error::none, rank_, note, 0, nullptr},
                static_cast<size_t>(from - boxes_[peer]->out.bytes),
                {from, from + bytes}});
    if (cookie != nullptr) arrived_.push_back({Completion::Kind::write_done, Error::none, peer, 0, 0, cookie});
  }
  bool asynchronous(Rank) const override { return true; }
  void flush() override {
    if (at_flush) at_flush();
  }
  void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override {
    puts_.push_back({peer, to, from, immediate, error, cookie, pieces_of_a_put});
  }
  void abandon(Rank) override {}
  void reject(Rank, const std::string&) override {}
  unsigned poll(Completion* out, unsigned max, Effort effort) override {
    if (efforts != nullptr) efforts->push_back(effort);
    polls.fetch_add(1, std::memory_order_relaxed);
    move_puts(effort);
    for (std::unique_lock<std::mutex> lock(post().mutex); !post().events.empty();) {
      const ThreadNetwork::Event event = std::move(post().events.front());
      post().events.pop_front();
      const Rank from = event.completion.peer;
      if (event.kind == ThreadNetwork::Event::Kind::closed) {
        closed_[from] = true;
        continue;
      }
      connect(from);
      if (!event.bytes.empty()) std::memcpy(boxes_[from]->in.bytes + event.at, event.bytes.data(), event.bytes.size());
      arrived_.push_back(event.completion);
    }
    unsigned count = 0;
    while (count < max && !arrived_.empty()) {
      out[count++] = arrived_.front();
      arrived_.pop_front();
    }
    return count;
  }
  uint64_t work(uint64_t) const override { return arrived_.size() + (room_ ? puts_.size() : 0); }
  bool holds_back() const override { return false; }
  void expect_immediates(Rank, bool) override {}
  uint32_t put_window() const override { return 256; }
  bool called() const override { return false; }
  bool receiver_copies() const override { return false; }
  uint32_t ticket(Sleeper) override { return 0; }
  void arm(Sleeper who, uint32_t) override {
    const std::lock_guard<std::mutex> guard(post().mutex);
    // What has come before is for the look that follows; so it is with a device.
    post().armed = who;
  }
  void disarm() override {
    const std::lock_guard<std::mutex> guard(post().mutex);
    post().armed = Sleeper::nobody;
  }
  bool is_armed() const override { return network_.is_armed(rank_); }
  void sleep(Sleeper who, uint32_t, int64_t nanoseconds) override {
    if (who == Sleeper::progress && nanoseconds < 0) endless_sleeps.fetch_add(1, std::memory_order_acq_rel);
    std::vector<pollfd> set;
    for (const int descriptor : descriptors_[index(who)]) set.push_back({descriptor, POLLIN, 0});
    const timespec limit{static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
    ppoll(set.data(), set.size(), nanoseconds < 0 ? nullptr : &limit, nullptr);
    uint64_t rings;
    if (read(set[0].fd, &rings, sizeof rings) > 0) rung_.fetch_add(1, std::memory_order_relaxed);
    slept_.fetch_add(1, std::memory_order_relaxed);
  }
  void ring_self(Sleeper who) override {
    self_rings.fetch_add(1, std::memory_order_acq_rel);
    const std::lock_guard<std::mutex> guard(post().mutex);
    ring(post(), who);
  }
  void announce_closed() override {
    if (std::exchange(announced_, true)) return;
    if (before_closing) before_closing();
    for (Rank peer = 0; peer < size(); ++peer) {
      if (peer != rank_ && boxes_[peer] != nullptr)
        send(peer, {ThreadNetwork::Event::Kind::closed,
                    {Completion::Kind::message, Error::none, rank_, 0, 0, nullptr},
                    0,
                    {}});
    }
  }
  Crowd crowd() const override { return {size(), processors, true}; }
  bool shares_processor(Rank) const override { return beside; }
  void visit_counters(const CounterVisitor& visit) const override {
    visit(Counter::parks, static_cast<double>(slept_.load(std::memory_order_relaxed)));
    visit(Counter::events, static_cast<double>(rung_.load(std::memory_order_relaxed)));
    visit(Counter::cache_misses, exposed_);  // plain buffers that were exposed
  }
  void wake_on(Sleeper who, int descriptor) override { descriptors_[index(who)].push_back(descriptor); }
  int sleeping_set(Sleeper) const override { return -1; }

  std::function<void()> before_closing;  // where a network may have to wait for what it sent
  std::function<void()> at_flush;        // on the thread that drives; set before there is an engine
  // There is room for so many pieces of a put at a time. The next one waits until the owner has polled again, and
  // nothing wakes the owner for that.
  uint32_t pieces_of_a_put = 1;
  uint32_t processors = 1;  // for all ranks
  bool beside = false;      // peers have the processor of this rank
  std::atomic<uint64_t> polls{0};
  std::vector<Effort>* efforts = nullptr;   // of polls, if it is set
  std::atomic<uint64_t> endless_sleeps{0};  // of the progress thread: those without a limit that it has begun
  std::atomic<uint64_t> self_rings{0};

 private:
  struct alignas(64) Box {
    std::byte bytes[kControlBytes + kSlotBytes];
  };
  struct Boxes {
    Box in, out;
  };
  struct Put {
    Rank peer;
    ExposedBuffer to;
    LocalBuffer from;
    uint32_t immediate;
    Error error;
    void* cookie;
    uint32_t pieces;
  };
  void move_puts(Effort effort) {
    while (!puts_.empty()) {
      if (!std::exchange(room_, true) || effort == Effort::look) return;
      Put& put = puts_.front();
      if (--put.pieces > 0) {
        room_ = false;
        return;
      }
      if (put.error == Error::none && put.from.bytes > 0) {
        ThreadNetwork::Post& there = network_.posts_[put.peer];
        const std::lock_guard<std::mutex> guard(there.mutex);
        if (there.revoked.count(put.to.key) == 0)
          std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(put.to.address)), put.from.data, put.from.bytes);
      }
      send(put.peer, {ThreadNetwork::Event::Kind::immediate,
                      {Completion::Kind::immediate, put.error, rank_, put.immediate, put.from.bytes, nullptr},
                      0,
                      {}});
      arrived_.push_back({Completion::Kind::put_done, Error::none, put.peer, 0, 0, put.cookie});
      puts_.pop_front();
    }
  }
  static Mailbox mailbox(Box& box) { return {box.bytes, box.bytes + kControlBytes}; }
  static size_t index(Sleeper who) { return who == Sleeper::progress ? 1 : 0; }
  static void ring(const ThreadNetwork::Post& post, Sleeper who) {
    const uint64_t one = 1;
    if (post.bell[index(who)] >= 0) CHECK(write(post.bell[index(who)], &one, sizeof one) == sizeof one);
  }
  ThreadNetwork::Post& post() const { return network_.posts_[rank_]; }
  void send(Rank peer, ThreadNetwork::Event event) {
    ThreadNetwork::Post& to = network_.posts_[peer];
    const std::lock_guard<std::mutex> guard(to.mutex);
    to.events.push_back(std::move(event));
    to.from.resize(size());
    ++to.from[rank_];
    if (to.armed != Sleeper::nobody) ring(to, std::exchange(to.armed, Sleeper::nobody));
  }

  ThreadNetwork& network_;
  Rank rank_;
  std::shared_ptr<ExposedMemory> memory_;
  std::vector<std::unique_ptr<Boxes>> boxes_;  // by peer
  std::vector<bool> closed_;                   // by peer: it said so
  std::deque<Completion> arrived_;
  std::deque<Put> puts_;
  bool room_ = true;
  std::vector<int> descriptors_[2];  // what each sleeper sleeps on; its own bell first
  std::atomic<uint64_t> slept_{0};
  std::atomic<uint64_t> rung_{0};
  int exposed_ = 0;
  uint32_t keys_ = 0;
  bool announced_ = false;
};

}  // namespace nbc::check
