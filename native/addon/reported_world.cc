#include "addon/reported_world.h"

#include <algorithm>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/clock.h"

namespace nbc::addon {
namespace {

// Between two answers to nbctop, so that clients that ask all the time take little of the rank's.
constexpr int64_t kPause = 20;  // ms
// The meter goes on for so long after an answer. nbctop asks every 10 s at least.
constexpr int64_t kMetered = 30'000;  // ms

// The ranks of a launcher's job on one machine have one parent. A process may have several jobs of runRanks(), each
// with a file of its own.
uint64_t job_of(const Opening& opening) {
  if (opening.launched) return static_cast<uint64_t>(opening.size == 1 ? getpid() : getppid());
  struct stat file {};
  return fstat(opening.job_fd, &file) == 0 ? file.st_ino : 0;
}

std::string member(const char* name, uint64_t value) {
  return std::string("\"") + name + "\":" + std::to_string(value);
}

}  // namespace

ReportedWorld::ReportedWorld(Engine& engine, const Opening& opening)
    : engine_(&engine),
      rank_(opening.rank),
      thread_(opening.is_thread()),
      launched_(opening.launched),
      job_(job_of(opening)),
      place_(member("job", job_) + "," + member("process", static_cast<uint64_t>(getpid())) + "," +
             member("rank", opening.rank) + "," + member("size", opening.size)),
      monitor_(opening.monitor),
      watchdog_(opening.watchdog),
      looked_(now_milliseconds()) {}

void ReportedWorld::answer_monitor() {
  monitor_.answer([this] {
    metered_until_ = now_milliseconds() + kMetered;
    const std::optional<Status> status = engine_->ask(kAnswer, Engine::Metering::on);
    return "{" + place_ + "," + (status ? status->members_for_nbctop() : "\"caller\":\"silent\"") + "}\n";
  });
  pauses_until_ = now_milliseconds() + kPause;
}

void ReportedWorld::turn_meter_off() {
  if (now_milliseconds() < metered_until_) return;
  const bool answered = engine_->ask(kAnswer, Engine::Metering::off).has_value();
  metered_until_ = answered ? kNever : now_milliseconds() + kMetered;
}

int64_t ReportedWorld::watchdog_due() const {
  return watchdog_ == 0 ? kNever : looked_ + std::max<int64_t>(watchdog_ / 4, 10);
}

bool ReportedWorld::look() {
  looked_ = now_milliseconds();
  const std::optional<Status> status = ask(kAnswer);
  if (!status || status->pending == 0) {
    since_ = -1;
    return false;
  }
  const int64_t now = now_milliseconds();
  if (since_ < 0 || status->steps != steps_ || status->pending != pending_) {
    since_ = std::max(now - status->operations.front().milliseconds, since_ < 0 ? 0 : now);
    steps_ = status->steps;
    pending_ = status->pending;
    told_ = false;
  }
  if (told_ || now - since_ < watchdog_) return false;
  told_ = true;
  return true;
}

std::string ReportedWorld::members_of_stuck() const {
  return "\"caller\":\"stuck\"," + member("rank", rank_) + "," + member("steps", steps_) + "," +
         member("pending", pending_);
}

}  // namespace nbc::addon
