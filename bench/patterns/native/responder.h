// The responder, in two designs. There is nothing to compute: a response carries the stamp of its request.
//
//   private      one thread looks for requests and answers
//   dispatcher   one thread looks for requests and sends responses, and owns all queues, so none needs a lock. Workers
//                answer: a request is handed over and its response handed back through a cell for each client, polled
//                on both sides, like a mailbox.
#pragma once
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "control.h"
#include "message.h"
#include "spinner.h"
#include "processors.h"

namespace nbc::patterns {

// Counts down to asking whether all clients are done, which is a line that others write.
class Quitting {
 public:
  Quitting(const Case& c, const Control& control) : clients_(c.clients), control_(control) {}
  bool now() {
    if (--until_asked_ > 0) return false;
    until_asked_ = 256;
    return control_.clients_done.load(std::memory_order_acquire) == clients_;
  }

 private:
  uint32_t clients_;
  const Control& control_;
  uint32_t until_asked_ = 256;
};

template <typename Inbox, typename Outlet>
void respond_alone(const Case& c, Control& control, Inbox& inbox, std::vector<std::unique_ptr<Outlet>>& outlets) {
  Spinner spinner{c};
  Quitting quitting{c, control};
  while (!quitting.now()) {
    Arrival arrival;
    if (!inbox.poll(arrival)) {
      spinner.idle();
      continue;
    }
    spinner.found();
    Outlet& outlet = *outlets[arrival.client];
    put_stamp(outlet.prepare(), c.response_bytes, arrival.stamp);
    inbox.release(arrival);
    outlet.submit();
  }
}

// free → asked (dispatcher) → answered (worker) → free (dispatcher). The stores release what the next one reads.
enum class Handover : uint32_t { free, asked, answered };

struct alignas(64) Cell {
  std::atomic<Handover> state{Handover::free};
  Arrival arrival;
  std::byte* response = nullptr;
};

inline void work(const Case& c, const Places& places, std::vector<Cell>& cells, uint32_t me,
                 const std::atomic<bool>& over) {
  places.take(1 + c.clients + me);
  Spinner spinner{c};
  while (!over.load(std::memory_order_relaxed)) {
    bool found = false;
    for (uint32_t client = me; client < c.clients; client += c.workers) {
      Cell& cell = cells[client];
      if (cell.state.load(std::memory_order_acquire) != Handover::asked) continue;
      put_stamp(cell.response, c.response_bytes, cell.arrival.stamp);
      cell.state.store(Handover::answered, std::memory_order_release);
      found = true;
    }
    if (found)
      spinner.found();
    else
      spinner.idle();
  }
}

template <typename Inbox, typename Outlet>
void respond_by_workers(const Case& c, const Places& places, Control& control, Inbox& inbox,
                        std::vector<std::unique_ptr<Outlet>>& outlets) {
  std::vector<Cell> cells(c.clients);
  std::atomic<bool> over{false};
  std::vector<std::thread> workers;
  for (uint32_t i = 0; i < c.workers; ++i) workers.emplace_back([&, i] { work(c, places, cells, i, over); });
  Spinner spinner{c};
  Quitting quitting{c, control};
  while (!quitting.now()) {
    bool found = false;
    Arrival arrival;
    if (inbox.poll(arrival)) {
      Cell& cell = cells[arrival.client];
      cell.arrival = arrival;
      cell.response = outlets[arrival.client]->prepare();
      cell.state.store(Handover::asked, std::memory_order_release);
      found = true;
    }
    for (uint32_t client = 0; client < c.clients; ++client) {
      Cell& cell = cells[client];
      if (cell.state.load(std::memory_order_acquire) != Handover::answered) continue;
      inbox.release(cell.arrival);
      cell.state.store(Handover::free, std::memory_order_relaxed);
      outlets[client]->submit();
      found = true;
    }
    if (found)
      spinner.found();
    else
      spinner.idle();
  }
  over.store(true, std::memory_order_relaxed);
  for (std::thread& worker : workers) worker.join();
}

template <typename Inbox, typename Outlet>
void run_responder(const Case& c, const Places& places, Control& control, Inbox& inbox,
                   std::vector<std::unique_ptr<Outlet>>& outlets) {
  while (control.phase.load(std::memory_order_acquire) == Phase::prepare) usleep(100);
  if (c.dispatched())
    respond_by_workers(c, places, control, inbox, outlets);
  else
    respond_alone(c, control, inbox, outlets);
  control.responder_polls = inbox.counters;
}

}  // namespace nbc::patterns
