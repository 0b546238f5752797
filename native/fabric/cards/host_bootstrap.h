// The bootstrap of ranks on one machine: cards lie in the job's shared file, and a datagram on a socket with a name
// that only the job has wakes a thread that sleeps.
//
//   word                      written by                                       order
//   CardSlot.state            the card's writer, after the card                release; the reader acquires
//   RankLine.calls            a rank that published or closed, fetch_add       release; its owner acquires
//   RankLine.state            its rank                                         release / acquire
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "job/rank_socket.h"
#include "job/segment.h"
#include "fabric/cards/bootstrap.h"

namespace nbc::cards {

class HostBootstrap final : public Bootstrap {
 public:
  // Who fills and opens the rank's line: this does, or a fabric of the same rank that uses shared memory.
  enum class Line { ours, of_others };
  // Opens the rank, if that is ours to do. Throws FabricError, for example if it is taken.
  HostBootstrap(std::shared_ptr<job::Segment> segment, Rank rank, uint32_t eager_limit, Line line = Line::ours);
  ~HostBootstrap() override;

  Rank rank() const override { return rank_; }
  Rank size() const override { return segment_->size(); }
  void publish(Rank peer, std::string_view card, CardState state) override;
  CardState look(Rank peer, std::string_view& card) override;
  std::string refusal(Rank peer) const override;
  Standing standing(Rank peer) override;
  bool is_ending(Rank peer) override;
  Crowd crowd() const override;
  bool called() const override {
    return segment_->line(rank_).calls.load(std::memory_order_acquire) != answered_.load(std::memory_order_relaxed);
  }
  void forget_calls() override;
  int descriptor() const override { return socket_.descriptor(); }
  void drain() override { socket_.drain(); }
  void close() override;

 private:
  struct CardSlot {
    std::atomic<CardState> state;
    uint32_t bytes;
    char card[kMostCard];
  };
  static_assert(sizeof(CardSlot) <= job::kCardBytes);

  CardSlot& slot(Rank from, Rank to) const { return *reinterpret_cast<CardSlot*>(segment_->card(from, to)); }
  void call(Rank peer);

  std::shared_ptr<job::Segment> segment_;
  Rank rank_;
  job::RankSocket socket_;
  job::RankCaller caller_;
  std::atomic<uint32_t> answered_{0};  // stored by the owner of the engine
};

}  // namespace nbc::cards
