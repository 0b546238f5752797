#include "fabric/cards/host_bootstrap.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include "job/presence.h"

namespace nbc::cards {

HostBootstrap::HostBootstrap(std::shared_ptr<job::Segment> segment, Rank rank, uint32_t eager_limit, Line line)
    : segment_(std::move(segment)), rank_(rank) {
  if (line == Line::ours) job::claim(*segment_, rank_, eager_limit, job::kByNetwork);
  socket_.open(*segment_, rank_, job::Call::bootstrap);  // without one, calls are noticed when somebody polls
  if (line == Line::ours) job::announce_open(*segment_, rank_);
}

HostBootstrap::~HostBootstrap() { close(); }

void HostBootstrap::call(Rank peer) {
  // release: what was published before; pairs with the acquire in called()
  segment_->line(peer).calls.fetch_add(1, std::memory_order_release);
  // A rank without a socket looks when it opens.
  caller_.call(*segment_, peer, job::Call::bootstrap);
}

void HostBootstrap::publish(Rank peer, std::string_view card, CardState state) {
  CardSlot& mine = slot(rank_, peer);
  if (mine.state.load(std::memory_order_relaxed) == CardState::none) {
    mine.bytes = static_cast<uint32_t>(card.copy(mine.card, sizeof mine.card));
  }
  mine.state.store(state, std::memory_order_release);  // the card before its state; pairs with look()
  call(peer);
}

CardState HostBootstrap::look(Rank peer, std::string_view& card) {
  const CardSlot& theirs = slot(peer, rank_);
  const CardState state = theirs.state.load(std::memory_order_acquire);  // pairs with publish()
  if (state != CardState::none) card = {theirs.card, std::min<size_t>(theirs.bytes, sizeof theirs.card)};
  return state;
}

std::string HostBootstrap::refusal(Rank peer) const {
  const bool reachable = (!job::has_opened(*segment_, peer) && !job::is_elsewhere(*segment_, peer)) ||
                         (segment_->line(peer).reach & job::kByNetwork) != 0;
  return reachable ? std::string() : job::why_no_route(*segment_, rank_, peer, {});
}

Standing HostBootstrap::standing(Rank peer) {
  const job::RankLine& line = segment_->line(peer);
  switch (line.state.load(std::memory_order_acquire)) {
    case job::RankState::absent:
    case job::RankState::claimed:
      return Standing::absent;
    case job::RankState::closed:
    case job::RankState::never:
    case job::RankState::elsewhere:
      return Standing::gone;
    case job::RankState::lost:
      return Standing::lost;
    case job::RankState::open:
      break;
  }
  return ::kill(line.pid, 0) != 0 && errno == ESRCH ? Standing::gone : Standing::open;
}

// The flags follow the process's name, in parentheses, and six other fields: proc(5), stat.
bool HostBootstrap::is_ending(Rank peer) {
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING
  std::ifstream file("/proc/" + std::to_string(segment_->line(peer).pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return standing(peer) == Standing::gone;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int field = 0; field < 6; ++field) fields >> skipped;
  unsigned long flags = 0;
  fields >> flags;
  return (flags & kExiting) != 0 || standing(peer) == Standing::gone;
}

Crowd HostBootstrap::crowd() const { return job::crowd_of(*segment_); }

// Before what was called for is looked at: whatever comes later counts again.
void HostBootstrap::forget_calls() {
  answered_.store(segment_->line(rank_).calls.load(std::memory_order_acquire), std::memory_order_relaxed);
}

void HostBootstrap::close() {
  job::RankLine& line = segment_->line(rank_);
  if (line.state.load(std::memory_order_relaxed) != job::RankState::open) return;  // never opened, or closed
  line.state.store(job::RankState::closed, std::memory_order_release);
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer != rank_) call(peer);
  }
}

}  // namespace nbc::cards
