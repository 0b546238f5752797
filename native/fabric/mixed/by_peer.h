// Two fabrics in one: each message goes to the one or the other by its peer. How a rank sleeps for both, connects and
// ends is left to who derives from this.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace nbc::mixed {

// `Base`: Fabric or FarFabric.
template <typename Base>
class ByPeer : public Base {
 public:
  Rank rank() const override { return one_.rank(); }
  Rank size() const override { return one_.size(); }
  Network network_to(Rank peer) const override { return to(peer).network_to(peer); }
  std::string why_not_moved(Rank peer) const override { return to(peer).why_not_moved(peer); }
  uint32_t eager_limit(Rank peer, uint32_t general) const override { return to(peer).eager_limit(peer, general); }
  Mailbox outbox(Rank peer) override { return to(peer).outbox(peer); }
  Mailbox inbox(Rank peer) override { return to(peer).inbox(peer); }
  bool has_closed(Rank peer) override { return to(peer).has_closed(peer); }
  bool is_given_up() const override { return one_.is_given_up() || other_.is_given_up(); }
  Error end_of(Rank peer) const override { return to(peer).end_of(peer); }
  bool prepare(Rank peer, const LocalBuffer& buffer, bool sends) override {
    return to(peer).prepare(peer, buffer, sends);
  }
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override {
    return to(peer).expose(peer, buffer, out);
  }
  bool expose_combining(Rank peer, const LocalBuffer& buffer, const Combining& how, ExposedBuffer& out) override {
    return to(peer).expose_combining(peer, buffer, how, out);
  }
  void conceal(Rank peer, const ExposedBuffer& buffer) override { to(peer).conceal(peer, buffer); }
  bool revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told) override {
    return to(peer).revoke(peer, buffer, bytes, why, told);
  }
  void retract(Rank peer, void* cookie, Error error, uint64_t told) override {
    to(peer).retract(peer, cookie, error, told);
  }
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override {
    to(peer).commit(peer, written, bytes, note, cookie);
  }
  bool asynchronous(Rank peer) const override { return to(peer).asynchronous(peer); }
  void flush() override {
    one_.flush();
    other_.flush();
  }
  bool flushed() const override { return one_.flushed() && other_.flushed(); }
  void put(Rank peer, const ExposedBuffer& where, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override {
    to(peer).put(peer, where, from, immediate, error, cookie);
  }
  void abandon(Rank peer) override { to(peer).abandon(peer); }
  void reject(Rank peer, const std::string& why) override { to(peer).reject(peer, why); }
  // The two take turns at being first: the second gets what the first leaves of `out`.
  unsigned poll(Completion* out, unsigned max, Effort effort) override {
    other_first_ = !other_first_;
    const unsigned count = (other_first_ ? other_ : one_).poll(out, max, effort);
    if (count == max) return count;
    return count + (other_first_ ? one_ : other_).poll(out + count, max - count, effort);
  }
  uint64_t work(uint64_t enough) const override {
    const uint64_t one = one_.work(enough);
    return one >= enough ? one : one + other_.work(enough - one);
  }
  bool holds_back() const override { return one_.holds_back() || other_.holds_back(); }
  void expect_immediates(Rank peer, bool expected) override { to(peer).expect_immediates(peer, expected); }
  uint32_t put_window() const override { return std::min(one_.put_window(), other_.put_window()); }
  bool is_read() const override { return one_.is_read() || other_.is_read(); }
  bool receiver_copies() const override { return one_.receiver_copies() || other_.receiver_copies(); }
  bool is_armed() const override { return one_.is_armed() && other_.is_armed(); }

 protected:
  // Both must live as long as this. All peers are reached by `one` until route() says otherwise.
  ByPeer(Fabric& one, Fabric& other) : one_(one), other_(other), ways_(one.size(), &one) {}
  ~ByPeer() = default;

  Fabric& to(Rank peer) const { return *ways_[peer]; }
  void route(Rank peer, Fabric& fabric) { ways_[peer] = &fabric; }

 private:
  Fabric& one_;
  Fabric& other_;
  std::vector<Fabric*> ways_;  // by rank
  bool other_first_ = false;   // which of both is polled first
};

}  // namespace nbc::mixed
