// The UCX fabric, over the networks that UCX has on any machine: its shared memory, and TCP. The suite of all fabrics
// (conformance.h), and what only this one does.
//
// UCX looks for its networks when a context is made, so tests choose them by its variable UCX_TLS.
#include "fabric/ucx/available.h"
#include "test/check.h"
#include "test/fabrics.h"

#if NBC_HAS_UCX
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/cards/host_bootstrap.h"
#include "fabric/cards/socket_bootstrap.h"
#include "fabric/ucx/ucx_fabric.h"
#include "test/conformance.h"
#include "test/ranks.h"
#include "test/tcp_job.h"

// What UCX keeps until the process ends, in places that LeakSanitizer does not know.
extern "C" const char* __lsan_default_suppressions() { return "leak:libucs.so\nleak:libuct.so\nleak:libucp.so\n"; }
// The sanitizers otherwise take a wrong range for the thread-local memory of libraries that UCX loads: LeakSanitizer of
// clang 14 reads there, and ThreadSanitizer of g++ 12 maps it.
extern "C" const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }
extern "C" const char* __tsan_default_options() { return "intercept_tls_get_addr=0"; }

namespace {

using namespace nbc;
using namespace nbc::check;
using ucx::UcxFabric;

ucs_status_t ignore(void*, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) { return UCS_OK; }

void need_ucx() {
  try {
    // UCX loads its networks with the first context. ThreadSanitizer takes a wrong range for the thread-local memory of
    // a thread that begins meanwhile.
    const ucx::Worker first(&ignore, nullptr);
  } catch (const FabricError& error) {
    throw Skip{error.message};
  }
}

// What UCX may use from now on. UCX_NET_DEVICES names a device of the networks in NBC_TEST_UCX_TLS, which others do not
// have.
void use(const std::string& networks) {
  setenv("UCX_TLS", networks.c_str(), 1);
  const char* const given = std::getenv("NBC_TEST_UCX_TLS");
  if (given == nullptr || networks != given) unsetenv("UCX_NET_DEVICES");
}

std::unique_ptr<UcxFabric> make_fabric(const std::shared_ptr<job::Segment>& segment, Rank rank, uint32_t eager_limit) {
  return std::make_unique<UcxFabric>(std::make_unique<cards::HostBootstrap>(segment, rank, eager_limit), eager_limit);
}

bool conforms(const std::string& name, const std::string& networks, bool meets_and_parts_only = false) {
  const auto job = [networks](Rank size) -> conformance::MakeRank {
    need_ucx();
    use(networks);
    return [segment = make_segment(size)](Rank rank, const RankOptions& options) {
      return make_fabric(segment, rank, options.eager_limit);
    };
  };
  return conformance::conforms({name, job, {mode(true), mode(false)}, 60, meets_and_parts_only});
}

// As on several machines.
bool conforms_apart() {
  const auto job = [](Rank size) -> conformance::MakeRank {
    need_ucx();
    use("tcp");
    return [job = std::make_shared<TcpJob>(size)](Rank rank, const RankOptions& options) {
      TcpOptions tcp;
      tcp.eager_limit = options.eager_limit;
      return std::make_unique<UcxFabric>(std::make_unique<cards::SocketBootstrap>(job->description(rank), tcp, "ucx"),
                                         options.eager_limit);
    };
  };
  return conformance::conforms({"ucx_over_sockets", job, {mode(true), mode(false)}, 60, true});
}

// NBC_TEST_UCX_TLS: over networks that only some machines have, and nothing else. UCX itself is not instrumented, so
// under a sanitizer what depends on its networks alone is left to the plain program. NBC_TEST_BRIEF does the same for
// networks that are asked for: in an emulated guest all of it takes minutes.
bool conforms_to_what_is_asked() {
  const bool brief = kThreadSanitizer || kAddressSanitizer;
  if (const char* networks = std::getenv("NBC_TEST_UCX_TLS"); networks != nullptr)
    return conforms("ucx_given", networks, brief || std::getenv("NBC_TEST_BRIEF") != nullptr);
  return conforms("ucx_sm", "sm,self", brief) && conforms("ucx_tcp", "tcp", brief) && conforms_apart();
}
const bool registered = conforms_to_what_is_asked();

// So what is named for a suite is what it runs over.
TEST(without_a_network_that_is_named_there_is_none) {
  need_ucx();
  const char* before = std::getenv("UCX_TLS");
  const std::string networks = before != nullptr ? before : "all";
  use("no_network_of_this_name");
  std::string why;
  try {
    const ucx::Worker worker(&ignore, nullptr);
  } catch (const FabricError& error) {
    why = error.message;
  }
  use(networks);
  CHECK(why.find("no network can be opened") != std::string::npos);
}

TEST(a_message_lies_in_one_part_of_the_mailbox) {
  CHECK(ucx::fits_mailbox(0, kControlBytes));
  CHECK(!ucx::fits_mailbox(0, kControlBytes + 1));
  CHECK(!ucx::fits_mailbox(kControlBytes - 1, 2));
  CHECK(ucx::fits_mailbox(kControlBytes, kSlotBytes));
  CHECK(!ucx::fits_mailbox(kControlBytes, kSlotBytes + 1));
  CHECK(ucx::fits_mailbox(ucx::kBoxBytes - 1, 1));
  CHECK(!ucx::fits_mailbox(ucx::kBoxBytes, 0));
  CHECK(!ucx::fits_mailbox(UINT64_MAX, 2));
}

// --- what does not come from a rank ----------------------------------------------------------------------------------

// Rank 1, which says what it likes.
struct Impostor {
  explicit Impostor(const std::shared_ptr<job::Segment>& segment)
      : bootstrap(segment, 1, kEagerLimit), worker(&ignore, nullptr) {
    const ucx::CardHead mine{ucx::kCardVersion, kEagerLimit, 7};
    bootstrap.publish(0, std::string(reinterpret_cast<const char*>(&mine), sizeof mine) + worker.address(),
                      cards::CardState::ready);
  }
  ~Impostor() {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    if (endpoint == nullptr) return;
    const ucs_status_ptr_t request = worker.lib.ep_close_nbx(endpoint, &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) worker.lib.request_free(request);
  }
  static void on_failure(void* failed, ucp_ep_h, ucs_status_t) { *static_cast<bool*>(failed) = true; }

  // Once rank 0 has published its card.
  void connect() {
    std::string_view card;
    CHECK(bootstrap.look(0, card) == cards::CardState::ready);
    ucx::CardHead theirs;
    std::memcpy(&theirs, card.data(), sizeof theirs);
    token = theirs.token;
    const std::string address(card.substr(sizeof theirs));
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &Impostor::on_failure;
    params.err_handler.arg = &failed;
    CHECK(worker.lib.ep_create(worker.handle(), &params, &endpoint) == UCS_OK);
  }
  // A head of any length, and data in one of the two ways.
  void send(const std::string& head, size_t bytes, bool offered) {
    sent.push_back(head);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = offered ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    const ucs_status_ptr_t request = worker.lib.am_send_nbx(endpoint, ucx::kMessageId, sent.back().data(),
                                                            sent.back().size(), data.data(), bytes, &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) worker.lib.request_free(request);
  }

  static constexpr uint32_t kEagerLimit = 255;
  cards::HostBootstrap bootstrap;
  ucx::Worker worker;
  ucp_ep_h endpoint = nullptr;
  bool failed = false;  // the endpoint
  uint64_t token = 0;
  std::deque<std::string> sent;  // UCX reads heads and data later
  std::vector<char> data = std::vector<char>(1 << 20, 'x');
};

TEST(what_no_rank_sends_ends_the_connection_or_is_dropped) {
  need_ucx();
  use("tcp");
  using ucx::Head;
  using ucx::Kind;
  struct Case {
    const char* why;  // what rank 0 says of it; nullptr: nothing, it is dropped
    size_t bytes;
    bool offered;
    std::function<void(Head&)> make;
  };
  const Case cases[] = {
      {nullptr, 8, false, [](Head& head) { head.token ^= 1; }},
      {nullptr, 8, false, [](Head& head) { head.from = 0; }},
      {nullptr, 8, false, [](Head& head) { head.from = 99; }},
      {"does not fit into its mailbox", 8, false, [](Head& head) { head.offset = UINT32_MAX; }},
      {"does not fit into its mailbox", 8, false, [](Head& head) { head.offset = ucx::kBoxBytes - 7; }},
      {"does not fit into its mailbox", 8, false, [](Head& head) { head.offset = kControlBytes - 1; }},
      {"does not fit into its mailbox", 100'000, false, [](Head&) {}},
      {"too many bits", 8, false, [](Head& head) { head.value = UINT32_MAX; }},
      {"of a kind that there is not", 0, false, [](Head& head) { head.kind = static_cast<Kind>(99); }},
      {"in a way in which no rank", 8, false, [](Head& head) { head.kind = Kind::put; }},
      {"in a way in which no rank", 100'000, true, [](Head&) {}},
      {"where there are none", 8, false, [](Head& head) { head.kind = Kind::closed; }},
      {"of another length", 100'000, true, [](Head& head) { head.kind = Kind::put, head.bytes = 5; }},
      {"not exposed to it", 100'000, true,
       [](Head& head) { head.kind = Kind::put, head.bytes = 100'000, head.key = 12345; }},
      {"a number that none has", 8, false, [](Head& head) { head.number = 0x90000000; }},
  };
  for (const Case& each : cases) {
    const auto segment = make_segment(2);
    const auto rank = make_fabric(segment, 0, Impostor::kEagerLimit);
    Impostor other(segment);
    Completion completion;
    bool broken = false;
    const auto pass = [&] {
      other.worker.progress();
      if (rank->poll(&completion, 1, Effort::pass) == 1) {
        CHECK(completion.kind == Completion::Kind::broken);
        CHECK_EQ(completion.error, Error::unreachable);
        broken = true;
      }
    };
    while (rank->connect(1) != Connect::later) CHECK(false);
    other.connect();
    Head head{};
    head.token = other.token;
    head.from = 1;
    each.make(head);
    other.send(std::string(reinterpret_cast<const char*>(&head), sizeof head), each.bytes, each.offered);
    if (each.why == nullptr) {
      // Behind it comes one of another length, which is dropped, too, and then what ends the connection.
      other.send("short", 0, false);
      head = {};
      head.token = other.token;
      head.from = 1;
      head.kind = static_cast<Kind>(99);
      other.send(std::string(reinterpret_cast<const char*>(&head), sizeof head), 0, false);
    }
    while (!broken) pass();
    const char* why = each.why != nullptr ? each.why : "of a kind that there is not";
    CHECK(rank->why(1).find(why) != std::string::npos);
  }
}

// A peer that has looked at its card connects to something: UCX would end the peer if its worker went at that moment.
TEST(a_rank_that_has_closed_can_be_connected_to_by_whom_it_gave_its_card) {
  need_ucx();
  use("tcp");
  const auto segment = make_segment(2);
  {
    const auto rank = make_fabric(segment, 0, Impostor::kEagerLimit);
    CHECK(rank->connect(1) == Connect::later);
  }
  Impostor other(segment);
  other.connect();
  for (int i = 0; i < 100; ++i) other.worker.progress();  // on one machine a refusal comes at once
  CHECK(!other.failed);
}

// The peer has not received it, so it does not count as sent.
TEST(a_put_that_the_end_of_a_connection_cuts_off_has_failed) {
  need_ucx();
  use("tcp");
  const auto segment = make_segment(2);
  const auto rank = make_fabric(segment, 0, Impostor::kEagerLimit);
  Impostor other(segment);
  CHECK(rank->connect(1) == Connect::later);
  const std::vector<std::byte> data(1 << 20);
  int cookie = 0;
  rank->put(1, {0, 1, nullptr}, {const_cast<std::byte*>(data.data()), data.size(), nullptr}, 5, Error::none, &cookie);
  rank->reject(1, "this test says so");
  Completion completions[4];
  CHECK_EQ(rank->poll(completions, 4, Effort::pass), 2u);
  CHECK(completions[0].kind == Completion::Kind::put_done && completions[0].cookie == &cookie);
  CHECK_EQ(completions[0].error, Error::unreachable);
  CHECK(completions[1].kind == Completion::Kind::broken);
}

// A card of another version or none at all is refused; nobody is asked to connect to what it says.
TEST(what_is_no_card_is_refused) {
  need_ucx();
  use("tcp");
  const ucx::CardHead newer{ucx::kCardVersion + 1, 255, 7};
  const ucx::CardHead bare{ucx::kCardVersion, 255, 7};
  const auto bytes = [](const ucx::CardHead& head) {
    return std::string(reinterpret_cast<const char*>(&head), sizeof head);
  };
  for (const auto& [card, why] : {std::pair{bytes(newer) + "address", "another version"},
                                  std::pair{bytes(bare), "not an address"}, std::pair{std::string("x"), "version 0"}}) {
    const auto segment = make_segment(2);
    const auto rank = make_fabric(segment, 0, 255);
    cards::HostBootstrap other(segment, 1, 255);
    other.publish(0, card, cards::CardState::ready);
    CHECK(rank->connect(1) == Connect::refused);
    CHECK(rank->why(1).find(why) != std::string::npos);
  }
}

}  // namespace

#endif

TEST_MAIN(240)
