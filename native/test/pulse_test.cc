// The beats by which peers learn that a rank has stopped.
#include <memory>

#include "fabric/descriptor.h"
#include "job/presence.h"
#include "job/pulse.h"
#include "job/segment.h"
#include "test/check.h"

namespace {

using namespace nbc;
using job::Segment;

// A process can be stopped before its new thread has run at all: a rank without any beat would be waited for for ever.
TEST(a_rank_has_beaten_before_its_thread_runs) {
  const Descriptor file(Segment::create(2, 1u << 20));
  const std::shared_ptr<Segment> segment = Segment::map(file.get());
  job::claim(*segment, 0, 0, job::kBySharedMemory);
  job::announce_open(*segment, 0);
  const job::RankLine& line = segment->line(0);
  CHECK_EQ(line.beats.load(), 0u);
  const job::Pulse pulse(segment, 0, 60'000);
  CHECK(line.beats.load() > 0);
  CHECK_EQ(line.beat_milliseconds.load(), 1000u);
}

}  // namespace

TEST_MAIN(30)
