#include "job/pulse.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "job/presence.h"

namespace nbc::job {

Pulse::Pulse(std::shared_ptr<Segment> segment, Rank rank, int64_t peer_timeout)
    : segment_(std::move(segment)),
      rank_(rank),
      patience_(peer_timeout),
      seen_(segment_->size()),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw system_failure("the pulse of this rank (eventfd)", errno);
  // The first beat is not the thread's: if the process is stopped before that runs, peers know that beats are missing.
  RankLine& mine = segment_->line(rank_);
  mine.beat_milliseconds.store(static_cast<uint32_t>(patience_.interval()), std::memory_order_relaxed);
  mine.beats.fetch_add(1, std::memory_order_relaxed);
  thread_ = std::thread([this] { run(); });
}

Pulse::~Pulse() {
  const uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  thread_.join();
}

void Pulse::run() {
  pthread_setname_np(pthread_self(), "nbc-pulse");
  RankLine& mine = segment_->line(rank_);
  pollfd stop{stop_.get(), POLLIN, 0};
  do {
    mine.beats.fetch_add(1, std::memory_order_relaxed);
    look();
  } while (::poll(&stop, 1, static_cast<int>(patience_.interval())) <= 0);
}

// Ranks that are threads of this process stop with this one. Looks are counted, not the time: one that comes late,
// because this rank did not run, is one look, and on a busy machine most may be late.
void Pulse::look() {
  for (const Rank peer : segment_->members()) {
    if (peer == rank_ || segment_->is_here(peer)) continue;
    const RankLine& line = segment_->line(peer);
    if (line.state.load(std::memory_order_acquire) != RankState::open) continue;
    const uint32_t beats = line.beats.load(std::memory_order_relaxed);
    Seen& seen = seen_[peer];
    const bool heard = beats != seen.beats || beats == 0;
    seen.silent = heard ? 0 : seen.silent + 1;
    seen.beats = beats;
    if (seen.silent >= patience_.looks(line.beat_milliseconds.load(std::memory_order_relaxed)))
      announce_lost(*segment_, peer, caller_);
  }
}

}  // namespace nbc::job
