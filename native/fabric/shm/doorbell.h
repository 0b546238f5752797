// Parking without lost wake-ups. One line per rank (segment.h), three kinds of word:
//
//   armed          stored by the rank that goes to sleep (which sleeper, whether on descriptors, and whether its
//                  progress thread is to be woken, too), exchanged for 0 by the writer that wakes it
//   need           stored by the sleeper before armed: how many more messages make waking worthwhile; counted down by
//                  writers
//   rung_*         one futex word per sleeper: counted up by the writer that wakes it; or a datagram, see below
//
//   sleeper                                          writer
//   t = rung                                         write the message, release store of its stamp
//   need = k; armed = me                             fence (seq_cst)                              (F2)
//   fence (seq_cst)                         (F1)     if armed != 0 and need falls to 0:
//   look once more; if there is something:             who = exchange(armed, 0)
//     armed = 0 and handle it                          if who: rung[who] += 1; futex_wake(rung[who])
//   else futex_wait(rung, t)
//
// F1 pairs with F2: either the sleeper's last look sees the message, or the writer's load sees that somebody is armed.
// Because the look comes after `need` was stored, every message that it did not see will be counted.
// native/test/model/doorbell.pml proves it.
//
// A rank that also waits for a network sleeps on descriptors (mixed/mixed_fabric.h), and armed says so. Then the
// datagram takes the place of the futex word: the writer that wakes the sleeper sends one to the socket of that sleeper
// (rank_socket.h), and only that sleeper, or the owner of the engine when it disarms, takes it out. Until then the
// socket is readable, and nobody falls asleep on it; so it is a ticket that is always taken early enough, and
// everything else stays as it is above.
// The event loop (Sleeper::loop) sleeps on a socket as well. It may be computing instead of sleeping when it is rung
// for. So the progress thread looks after it: it dozes meanwhile, and when it stops dozing, it has itself rung for, too
// (doorbell_add_progress). Its compare-and-swap fails if a writer has been there before; then the progress thread goes
// on looking after the event loop.
#pragma once
#include <cstdint>

#include "job/segment.h"

namespace nbc::shm {

using job::DoorbellLine;

// A value of `armed`.
struct Armed {
  Sleeper who = Sleeper::nobody;
  bool on_socket = false;
  bool progress_too = false;  // with Sleeper::loop
  explicit operator bool() const { return who != Sleeper::nobody; }
};

// Sleeping side: only the rank itself calls these on its own line.
uint32_t doorbell_ticket(DoorbellLine& bell, Sleeper who);
void doorbell_arm(DoorbellLine& bell, Armed armed, uint32_t need);
void doorbell_disarm(DoorbellLine& bell);
// The bell is armed for the event loop. True: from now on the writer wakes the progress thread, too. False: a writer
// has rung. By the owner of the engine.
bool doorbell_add_progress(DoorbellLine& bell);
bool doorbell_is_armed(const DoorbellLine& bell);
void doorbell_sleep(DoorbellLine& bell, Sleeper who, uint32_t ticket, int64_t nanoseconds);
// Writing side. The caller has done F2 after its last write. Counts the messages, and returns which sleeper the caller
// has to wake for them.
Armed doorbell_count(DoorbellLine& bell, uint32_t messages);
// The armed sleeper, whatever count it needs.
Armed doorbell_take(DoorbellLine& bell);
// Wakes a sleeper on its futex in any case.
void doorbell_wake(DoorbellLine& bell, Sleeper who);

}  // namespace nbc::shm
