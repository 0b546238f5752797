// Flow control of one connection whose messages go into shared queues of receives, as one side of it sees it.
//
// Each side adds a share of receives to its queue before the other may send, and the other may have as many messages
// there: its credits. Every SEND and every write with an immediate value takes a receive, so it costs its sender a
// credit. The receiver owes it back, and pays with the immediate value of the next SEND the other way. If there is none
// for long, a SEND of nothing does it: a credit message.
//
//   a message leaves          if left > 1                              left − 1; a SEND: pays all that is owed
//   a credit message leaves   if left > 0 and owed >= half a share     the same
//   either arrives            always: a receive is there               owed + 1; a SEND: left + what it pays
//
// Always: credits left at one side + messages on their way from it + owed for them + payments on their way back = the
// share.
//
// Nobody is stuck: one reserved credit suffices. Suppose that A and B have received all that was sent, and A has a
// message that may not leave. Then A has one credit at most, so B owes nearly its whole share, and would send a credit
// message unless it has no credit left. That means that A owes all of its share, and would send one, too, unless it has
// no credit left. The last credit goes to a credit message only; so the last thing that each sent is one, a and b. A
// owes for b, too, and would have paid with a; so a left before b came. But b brought half a share, of which A has
// spent nothing since. A has no credit left: a contradiction.
//
// It ends: a credit message stands for at least two messages since the last SEND. If they are credit messages
// themselves, there are at most half as many each time.
#pragma once
#include <cstdint>
#include <utility>

namespace nbc::verbs {

class Credits {
 public:
  static constexpr uint32_t kLeastShare = 4;

  // `share`: what this side has added to its queue for the peer.
  explicit Credits(uint32_t share) : share_(share) {}
  // `credits`: what the peer has added for us.
  void start(uint32_t credits) { all_ = left_ = credits; }

  bool may_send() const { return left_ > kReserve; }
  bool payment_due() const { return left_ > 0 && owed_ >= share_ / 2; }
  void spend() { --left_; }
  // What goes into the immediate value of a SEND.
  uint32_t pay() { return std::exchange(owed_, 0); }

  // A message has taken a receive. False: the peer had no credit for it.
  bool arrived() {
    if (owed_ == share_) return false;
    ++owed_;
    return true;
  }
  // False: more than the peer can owe.
  bool paid(uint32_t credits) {
    if (credits > all_ - left_) return false;
    left_ += credits;
    return true;
  }

 private:
  static constexpr uint32_t kReserve = 1;
  uint32_t share_;
  uint32_t owed_ = 0;
  uint32_t all_ = 0;
  uint32_t left_ = 0;
};

}  // namespace nbc::verbs
