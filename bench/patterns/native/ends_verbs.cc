#include "fabric/verbs/available.h"

#include "ends.h"

#if NBC_HAS_VERBS
#include "client.h"
#include "mailboxes.h"
#include "queue_outlet.h"
#include "receives.h"
#include "responder.h"

namespace nbc::patterns {
namespace {

verbs::DeviceOptions named(const std::string& name) {
  verbs::DeviceOptions options;
  options.name = name;
  return options;
}

Card with_mailbox(Card card, const Registered& memory, size_t offset) {
  card.mailbox = reinterpret_cast<uintptr_t>(memory.base + offset);
  card.mailbox_key = memory.mr->rkey;
  return card;
}

// A queue pair takes a depth of at least 1 for what it does not use.
QueuePair::Depths depths(const Case& c, uint32_t receives) { return {QueueOutlet::depth(c), receives, c.inline_bytes}; }

// Requests come one at a time from each client, responses one at a time to it.
constexpr uint32_t kOneAtATime = 1;

// One end of a connection: the queue pair and the queue that its sends complete in. That is its own, since nobody waits
// for it: it is only read when buffers are short, and then says at once whose they are.
struct Connection {
  CompletionQueue sent;
  QueuePair pair;
  Connection(const Case& c, Device& device, CompletionQueue& received, ibv_srq* shared, uint32_t receives)
      : sent(device, QueueOutlet::depth(c)), pair(device, sent, received, shared, depths(c, receives)) {}
};

}  // namespace

void load_verbs() {
  const verbs::Library& library = verbs::library();
  if (ibv_device** list = library.get_device_list(nullptr)) library.free_device_list(list);
}

void verbs_client(const Case& c, Control& control, uint32_t me) {
  Device device{named(c.client_device.empty() ? c.device : c.client_device)};
  const uint32_t receives = Receives::entries(kOneAtATime);
  CompletionQueue received{device, receives};
  Connection connection{c, device, received, nullptr, receives};
  Registered mailbox{device, mailbox_stride(c.response_bytes)};
  control.clients[me] = with_mailbox(connection.pair.card(), mailbox, 0);
  control.meet(cards_written, c);
  connection.pair.connect(control.responders[me]);
  QueueOutlet outlet{c, c.request, c.request_bytes, device, connection.pair, connection.sent, control.responders[me]};
  if (c.response == Verb::write) {
    Mailboxes inbox{mailbox.base, c.response_bytes, 1};
    inbox.give(0, me);
    control.meet(connected, c);
    run_client(c, control, me, inbox, outlet);
  } else {
    Receives inbox{device, received, {connection.pair.get(), nullptr}, c.response_bytes, receives};
    control.meet(connected, c);
    run_client(c, control, me, inbox, outlet);
  }
  control.figures[me].sends = outlet.counters;
  control.meet(all_quiet, c);
}

void verbs_responder(const Case& c, const Places& places, Control& control) {
  Device device{named(c.device)};
  const uint32_t receives = Receives::entries(c.clients);
  CompletionQueue received{device, receives};
  SharedReceiveQueue shared{device, receives};
  const size_t stride = mailbox_stride(c.request_bytes);
  Registered mailboxes{device, c.mailboxes() * stride};
  std::vector<std::unique_ptr<Connection>> connections;
  for (uint32_t i = 0; i < c.clients; ++i) {
    connections.push_back(std::make_unique<Connection>(c, device, received, shared.get(), 0));
    control.responders[i] = with_mailbox(connections[i]->pair.card(), mailboxes, c.mailbox_of(i) * stride);
  }
  control.meet(cards_written, c);
  std::vector<std::unique_ptr<QueueOutlet>> outlets;
  for (uint32_t i = 0; i < c.clients; ++i) {
    Connection& connection = *connections[i];
    connection.pair.connect(control.clients[i]);
    outlets.push_back(std::make_unique<QueueOutlet>(c, c.response, c.response_bytes, device, connection.pair,
                                                    connection.sent, control.clients[i]));
  }
  if (c.request == Verb::write) {
    Mailboxes inbox{mailboxes.base, c.request_bytes, c.mailboxes()};
    for (uint32_t i = 0; i < c.clients; ++i) inbox.give(c.mailbox_of(i), i);
    control.meet(connected, c);
    run_responder(c, places, control, inbox, outlets);
  } else {
    Receives inbox{device, received, {nullptr, shared.get()}, c.request_bytes, receives};
    control.meet(connected, c);
    run_responder(c, places, control, inbox, outlets);
  }
  for (const auto& outlet : outlets) control.responder_sends.add(outlet->counters);
  control.meet(all_quiet, c);
}

DeviceFacts describe_device(const std::string& name) {
  Device device{named(name)};
  CompletionQueue completions{device, 1};
  // Devices say how much they take inline only by refusing more.
  uint32_t taken = 0;
  for (uint32_t step = 1 << 16; step > 0; step /= 2) {
    ibv_qp_init_attr init{};
    init.send_cq = completions.get();
    init.recv_cq = completions.get();
    init.cap = {.max_send_wr = QueueOutlet::kLeastDepth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = taken + step};
    init.qp_type = IBV_QPT_RC;
    if (ibv_qp* pair = device.lib.create_qp(device.pd, &init)) {
      device.lib.destroy_qp(pair);
      taken += step;
    }
  }
  return {device.name, taken};
}

}  // namespace nbc::patterns
#else

namespace nbc::patterns {
namespace {
[[noreturn]] void absent() {
  throw FabricError{
      "built without verbs: the headers of libibverbs were not there (Debian: apt install libibverbs-dev)"};
}
}  // namespace

void load_verbs() { absent(); }
void verbs_client(const Case&, Control&, uint32_t) { absent(); }
void verbs_responder(const Case&, const Places&, Control&) { absent(); }
DeviceFacts describe_device(const std::string&) { absent(); }

}  // namespace nbc::patterns
#endif
