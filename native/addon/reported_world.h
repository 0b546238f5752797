// An open world of this process, as the reporter (addon/reporter.h) sees it: what its rank does, whether it has made no
// step for long, and the socket by which nbctop asks.
//
// Threads: the caller holds the reporter's lock. The engine answers from the thread that drives it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "addon/monitor.h"
#include "addon/opening.h"
#include "engine/engine.h"

namespace nbc::addon {

class ReportedWorld {
 public:
  static constexpr int64_t kNever = INT64_MAX;  // ms of now_milliseconds()
  // How long the thread that drives an engine has to answer.
  static constexpr int64_t kAnswer = 500;  // ms

  // Opens the socket of the option `monitor`.
  ReportedWorld(Engine& engine, const Opening& opening);

  bool is_of(const Engine& engine) const { return engine_ == &engine; }
  Rank rank() const { return rank_; }
  // The rank is the process; others are threads of it.
  bool is_process() const { return !thread_; }
  // A launcher has started the job, and asks for it. Jobs of runRanks() are of this process alone.
  bool is_launched() const { return launched_; }
  bool is_in_job_of(const ReportedWorld& other) const { return job_ == other.job_; }

  // Empty: a thread has the engine and does not answer within so many milliseconds.
  std::optional<Status> ask(int64_t milliseconds) { return engine_->ask(milliseconds, Engine::Metering::as_it_is); }

  // --- nbctop ---

  // What is to be polled; -1: nothing, at present.
  int monitor_descriptor(int64_t now) const { return now < pauses_until_ ? -1 : monitor_.descriptor(); }
  // When monitor_descriptor() may change, or turn_meter_off() has to be called.
  int64_t monitor_due(int64_t now) const { return now < pauses_until_ ? pauses_until_ : metered_until_; }
  // Takes one connection, if there is one. Does not block.
  void answer_monitor();
  void turn_meter_off();

  // --- watchdog ---

  // When look() has to be called; kNever: not at all.
  int64_t watchdog_due() const;
  // True, once: an operation has been pending, without a step of this rank, for as long as the watchdog waits.
  bool look();
  // For nbcrun, after look().
  std::string members_of_stuck() const;
  // Somebody has told of it.
  void told() { told_ = true; }

 private:
  Engine* engine_;
  Rank rank_;
  bool thread_;
  bool launched_;
  uint64_t job_;       // tells jobs apart
  std::string place_;  // members of JSON: which rank this is, for nbctop
  Monitor monitor_;
  int64_t pauses_until_ = 0;
  int64_t metered_until_ = kNever;

  int64_t watchdog_;  // ms; 0: none
  int64_t looked_;
  int64_t since_ = -1;  // of the last step that was seen; -1: nothing was pending
  uint64_t steps_ = 0;
  uint64_t pending_ = 0;
  bool told_ = false;
};

}  // namespace nbc::addon
