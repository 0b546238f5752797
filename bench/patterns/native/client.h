// A client: a request, its response, the next request. Its time is from before the request is posted until the response
// is there.
#pragma once
#include "control.h"
#include "message.h"
#include "spinner.h"

namespace nbc::patterns {

// Inbox: poll, release, counters (mailboxes.h, receives.h). Outlet: prepare, submit (mapped_outlet.h, queue_outlet.h).
template <typename Inbox, typename Outlet>
void run_client(const Case& c, Control& control, uint32_t me, Inbox& inbox, Outlet& outlet) {
  ClientFigures& figures = control.figures[me];
  Spinner spinner{c};
  while (control.phase.load(std::memory_order_acquire) == Phase::prepare) usleep(100);
  for (uint64_t number = 1;; ++number) {
    const Phase phase = control.phase.load(std::memory_order_relaxed);
    if (phase == Phase::stop) break;
    const uint64_t begin = now_ns();
    put_stamp(outlet.prepare(), c.request_bytes, make_stamp(number, me));
    outlet.submit();
    Arrival arrival;
    while (!inbox.poll(arrival)) spinner.idle();
    spinner.found();
    const uint64_t end = now_ns();
    if (arrival.stamp != make_stamp(number, me)) throw FabricError{"a response that is not that of the request"};
    inbox.release(arrival);
    if (phase != Phase::measure) continue;
    if (figures.begin_ns == 0) figures.begin_ns = begin;
    figures.end_ns = end;
    figures.latency.add(end - begin);
    figures.requests.fetch_add(1, std::memory_order_relaxed);
  }
  figures.polls = inbox.counters;
  control.clients_done.fetch_add(1, std::memory_order_release);
}

}  // namespace nbc::patterns
