#include "addon/fabrics.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/reduce.h"
#include "fabric/cards/host_bootstrap.h"
#include "fabric/cards/socket_bootstrap.h"
#include "fabric/mixed/mixed_fabric.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fabric/ucx/available.h"
#include "fabric/verbs/available.h"
#if NBC_HAS_VERBS
#include "fabric/verbs/device.h"
#include "fabric/verbs/mailboxes.h"
#include "fabric/verbs/offer.h"
#include "fabric/verbs/verbs_fabric.h"
#endif
#if NBC_HAS_UCX
#include "fabric/ucx/ucx_fabric.h"
#endif

namespace nbc::addon {
namespace {

// Only 'auto' asks which host a rank is on.
shm::ShmOptions shm_options(const Opening& opening) {
  shm::ShmOptions options = opening.shm;
  options.rank = opening.rank;
  options.eager_limit = opening.engine.libof.eager_limit;
  options.find_kernel = numbered_kernel;
  options.by_host = opening.transport == "auto";
  options.host = opening.host;
  return options;
}

// Where all ranks listen, for those that meet over sockets.
tcp::JobDescription description_of(const Opening& opening, tcp::Socket listener, const std::vector<uint32_t>& ports) {
  const Opening::Tcp& given = opening.tcp;
  tcp::JobDescription job;
  job.listener = std::move(listener);
  if (given.addresses.size() != opening.size || ports.size() != opening.size || given.hosts.size() != opening.size)
    throw FabricError{"transport '" + opening.transport + "': the addresses of all ranks are needed"};
  job.rank = opening.rank;
  for (Rank rank = 0; rank < opening.size; ++rank)
    job.addresses.push_back(tcp::parse_address(given.addresses[rank], static_cast<uint16_t>(ports[rank])));
  job.hosts = given.hosts;
  job.processors = std::max(given.processors, 1u);
  job.key = given.secret;
  return job;
}

tcp::TcpOptions tcp_options(const Opening& opening) {
  tcp::TcpOptions tcp;
  tcp.eager_limit = opening.engine.libof.eager_limit;
  tcp.silence_milliseconds = static_cast<int>(opening.peer_timeout);
  tcp.peer_timeout = opening.peer_timeout;
  tcp.connect_milliseconds = 3 * opening.peer_timeout;
  tcp.beats = opening.engine.progress_thread;
  return tcp;
}

// To ask a receiver first takes as long as the way of a message. Each connection has memory for eight of the longest.
uint32_t tcp_eager_limit(const Opening& opening) {
  if (opening.tcp_eager_limit >= 0) return static_cast<uint32_t>(opening.tcp_eager_limit);
  return opening.size <= 64 ? 32 * 1024 : 8 * 1024;
}

std::unique_ptr<FarFabric> make_tcp(const Opening& opening, tcp::Socket listener,
                                    const std::shared_ptr<ExposedMemory>& exposed) {
  tcp::TcpOptions options = tcp_options(opening);
  options.eager_limit = tcp_eager_limit(opening);
  return std::make_unique<tcp::TcpFabric>(description_of(opening, std::move(listener), opening.tcp.ports), options,
                                          exposed);
}

#if NBC_HAS_VERBS || NBC_HAS_UCX
// Ranks that have a listening socket exchange their cards over sockets, others through the shared file.
std::unique_ptr<cards::Bootstrap> make_bootstrap(const Opening& opening, tcp::Socket listener,
                                                 std::shared_ptr<job::Segment> segment,
                                                 cards::HostBootstrap::Line line) {
  const Opening::Tcp& given = opening.tcp;
  if (listener)
    return std::make_unique<cards::SocketBootstrap>(
        description_of(opening, std::move(listener), given.card_ports.empty() ? given.ports : given.card_ports),
        tcp_options(opening), opening.transport);
  return std::make_unique<cards::HostBootstrap>(std::move(segment), opening.rank, opening.engine.libof.eager_limit,
                                                line);
}
#endif

[[noreturn, maybe_unused]] void not_in_this_build(const std::string& transport, const std::string& library,
                                                  const std::string& package) {
  throw FabricError{"transport '" + transport + "' is not in this build: it was made without the headers of " +
                    library + ". Install them (Debian: apt install " + package + ") and build again"};
}

#if NBC_HAS_VERBS
// How many ranks of this rank's machine come before it. Under nbcrun all are on this one.
uint32_t number_on_host(const Opening& opening) {
  const std::vector<uint32_t>& hosts = opening.tcp.hosts;
  if (opening.rank >= hosts.size()) return opening.rank;
  return static_cast<uint32_t>(std::count(hosts.begin(), hosts.begin() + opening.rank, hosts[opening.rank]));
}
#endif

// `exposed`: part of a rank that is also on shared memory, and opened with that; null: it is alone.
std::unique_ptr<FarFabric> make_verbs(const Opening& opening, tcp::Socket listener,
                                      std::shared_ptr<job::Segment> segment,
                                      const std::shared_ptr<ExposedMemory>& exposed) {
#if NBC_HAS_VERBS
  using Line = cards::HostBootstrap::Line;
  verbs::VerbsOptions verbs = opening.verbs;
  verbs.eager_limit = opening.engine.libof.eager_limit;
  verbs.make_receives_for(libof::eager_slots(verbs.eager_limit));
  verbs.give_up_after(opening.peer_timeout);
  verbs.connect_milliseconds = 3 * opening.peer_timeout;
  verbs.device.turn = number_on_host(opening);
  auto bootstrap = make_bootstrap(opening, std::move(listener), std::move(segment),
                                  exposed == nullptr ? Line::ours : Line::of_others);
  return std::make_unique<verbs::VerbsFabric>(std::move(bootstrap), verbs, exposed);
#else
  static_cast<void>(opening);
  static_cast<void>(listener);
  static_cast<void>(segment);
  static_cast<void>(exposed);
  not_in_this_build("verbs", "libibverbs", "libibverbs-dev");
#endif
}

std::unique_ptr<Fabric> make_ucx(const Opening& opening, tcp::Socket listener, std::shared_ptr<job::Segment> segment) {
#if NBC_HAS_UCX
  auto bootstrap = make_bootstrap(opening, std::move(listener), std::move(segment), cards::HostBootstrap::Line::ours);
  return std::make_unique<ucx::UcxFabric>(std::move(bootstrap), opening.engine.libof.eager_limit);
#else
  static_cast<void>(opening);
  static_cast<void>(listener);
  static_cast<void>(segment);
  not_in_this_build("ucx", "UCX", "libucx-dev");
#endif
}

// The networks to other hosts. `near`: what reaches this one; null: this rank is alone here.
std::unique_ptr<FarFabric> make_networks(const Opening& opening, Listeners listeners,
                                         const std::shared_ptr<job::Segment>& segment, shm::ShmFabric* near) {
  using Way = mixed::TwoNetworks::Way;
  const auto used = [&](Way way) { return std::count(opening.ways.begin(), opening.ways.end(), way) > 0; };
  if (!used(Way::verbs))
    return make_tcp(opening, std::move(listeners.first), near == nullptr ? nullptr : near->memory());
  const bool both = used(Way::tcp);
  auto verbs = make_verbs(opening, std::move(both ? listeners.cards : listeners.first), segment,
                          near == nullptr ? nullptr : near->arena());
  if (!both) return verbs;
  auto tcp = make_tcp(opening, std::move(listeners.first), verbs->memory());
  return std::make_unique<mixed::TwoNetworks>(std::move(verbs), std::move(tcp), opening.ways);
}

// Shared memory between ranks of one host, networks to all others; who is where was found out when they met.
std::unique_ptr<Fabric> make_beside_networks(const Opening& opening, Listeners listeners,
                                             const std::shared_ptr<job::Segment>& segment) {
  auto near = std::make_unique<shm::ShmFabric>(segment, shm_options(opening), shm::ShmFabric::Opening::later);
  auto far = make_networks(opening, std::move(listeners), segment, near.get());
  const std::vector<uint32_t>& hosts = opening.tcp.hosts;
  std::vector<job::Route> routes;
  for (const uint32_t host : hosts)
    routes.push_back(host == hosts[opening.rank] ? job::Route::shared_memory : job::Route::network);
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far), std::move(routes));
}

// Shared memory and, where there is an active device, verbs.
std::unique_ptr<Fabric> make_mixed(const Opening& opening, std::shared_ptr<job::Segment> segment) {
  auto near = std::make_unique<shm::ShmFabric>(segment, shm_options(opening), shm::ShmFabric::Opening::later);
  std::unique_ptr<FarFabric> far;
  try {
    far = make_verbs(opening, {}, std::move(segment), near->arena());
  } catch (const FabricError& error) {
    // Operations that need another host fail later, with this text.
    near->open(false, error.message);
    return near;
  }
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far));
}

}  // namespace

std::unique_ptr<Fabric> make_fabric(const Opening& opening, Listeners listeners,
                                    std::shared_ptr<job::Segment> segment) {
  tcp::Socket& listener = listeners.first;
  if (opening.transport == "tcp") return make_tcp(opening, std::move(listener), nullptr);
  if (opening.transport == "verbs") return make_verbs(opening, std::move(listener), std::move(segment), nullptr);
  if (opening.transport == "ucx") return make_ucx(opening, std::move(listener), std::move(segment));
  if (listener && segment == nullptr) return make_networks(opening, std::move(listeners), segment, nullptr);
  if (listener) return make_beside_networks(opening, std::move(listeners), segment);
  // Where no host is named, all ranks are on this one, and nothing is spent on a network.
  if (opening.transport == "auto" && !opening.host.empty() && opening.size > 1)
    return make_mixed(opening, std::move(segment));
  return std::make_unique<shm::ShmFabric>(std::move(segment), shm_options(opening));
}

VerbsOffer offer_verbs(const verbs::VerbsOptions& options) {
#if NBC_HAS_VERBS
  const auto device = std::make_shared<verbs::Device>(options.device);
  // Memory that cannot be locked would be found out when the world opens, too late to choose another network.
  const verbs::Mailboxes trial(device, 1, 0);
  return {device->name, verbs::offer_of(device->attachment().port)};
#else
  static_cast<void>(options);
  not_in_this_build("verbs", "libibverbs", "libibverbs-dev");
#endif
}

}  // namespace nbc::addon
