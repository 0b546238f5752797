#include "client.h"
#include "ends.h"
#include "mailboxes.h"
#include "mapped_outlet.h"
#include "responder.h"

namespace nbc::patterns {
namespace {

// The mapping: the responder's mailboxes, then one for each client.
size_t request_box(const Case& c, uint32_t box) { return box * mailbox_stride(c.request_bytes); }
size_t response_box(const Case& c, uint32_t client) {
  return request_box(c, c.mailboxes()) + client * mailbox_stride(c.response_bytes);
}

}  // namespace

size_t shared_mailbox_bytes(const Case& c) { return c.transport == Transport::shm ? response_box(c, c.clients) : 0; }

void shm_client(const Case& c, Control& control, std::byte* mailboxes, uint32_t me) {
  Mailboxes inbox{mailboxes + response_box(c, me), c.response_bytes, 1};
  inbox.give(0, me);
  MappedOutlet outlet{mailboxes + request_box(c, c.mailbox_of(me)), c.request_bytes};
  control.meet(connected, c);
  run_client(c, control, me, inbox, outlet);
}

void shm_responder(const Case& c, const Places& places, Control& control, std::byte* mailboxes) {
  Mailboxes inbox{mailboxes, c.request_bytes, c.mailboxes()};
  std::vector<std::unique_ptr<MappedOutlet>> outlets;
  for (uint32_t i = 0; i < c.clients; ++i) {
    inbox.give(c.mailbox_of(i), i);
    outlets.push_back(std::make_unique<MappedOutlet>(mailboxes + response_box(c, i), c.response_bytes));
  }
  control.meet(connected, c);
  run_responder(c, places, control, inbox, outlets);
}

}  // namespace nbc::patterns
