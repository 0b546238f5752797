#include "addon/fabrics.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fabric/mixed/mixed_fabric.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fabric/verbs/available.h"
#if NBC_HAS_VERBS
#include "fabric/verbs/host_bootstrap.h"
#include "fabric/verbs/verbs_fabric.h"
#endif

namespace nbc::addon {
namespace {

// Only 'auto' asks which host a rank is on.
shm::ShmOptions shm_options(const Opening& opening) {
  shm::ShmOptions options = opening.shm;
  options.rank = opening.rank;
  options.eager_limit = opening.engine.libof.eager_limit;
  options.by_host = opening.transport == "auto";
  options.host = opening.host;
  return options;
}

std::unique_ptr<FarFabric> make_tcp(const Opening& opening, tcp::Socket listener,
                                    const std::shared_ptr<ExposedMemory>& exposed) {
  const Opening::Tcp& given = opening.tcp;
  tcp::JobDescription job;
  job.listener = std::move(listener);
  if (given.addresses.size() != opening.size || given.ports.size() != opening.size ||
      given.hosts.size() != opening.size)
    throw FabricError{"transport 'tcp': the addresses of all ranks are needed"};
  job.rank = opening.rank;
  for (Rank rank = 0; rank < opening.size; ++rank)
    job.addresses.push_back(tcp::parse_address(given.addresses[rank], static_cast<uint16_t>(given.ports[rank])));
  job.hosts = given.hosts;
  job.processors = std::max(given.processors, 1u);
  job.key = given.secret;
  tcp::TcpOptions tcp;
  tcp.eager_limit = opening.engine.libof.eager_limit;
  return std::make_unique<tcp::TcpFabric>(std::move(job), tcp, exposed);
}

// Shared memory between ranks of one host, TCP to all others; who is where was found out when they met.
std::unique_ptr<Fabric> make_beside_tcp(const Opening& opening, tcp::Socket listener,
                                        std::shared_ptr<job::Segment> segment) {
  auto near =
      std::make_unique<shm::ShmFabric>(std::move(segment), shm_options(opening), shm::ShmFabric::Opening::later);
  auto far = make_tcp(opening, std::move(listener), near->memory());
  const std::vector<uint32_t>& hosts = opening.tcp.hosts;
  std::vector<job::Route> routes;
  for (const uint32_t host : hosts)
    routes.push_back(host == hosts[opening.rank] ? job::Route::shared_memory : job::Route::network);
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far), std::move(routes));
}

// `exposed`: part of a rank that is also on shared memory, and opened with that; null: it is alone.
std::unique_ptr<FarFabric> make_verbs(const Opening& opening, std::shared_ptr<job::Segment> segment,
                                      const std::shared_ptr<ExposedMemory>& exposed) {
#if NBC_HAS_VERBS
  using verbs::HostBootstrap;
  verbs::VerbsOptions verbs = opening.verbs;
  verbs.eager_limit = opening.engine.libof.eager_limit;
  auto bootstrap =
      std::make_unique<HostBootstrap>(std::move(segment), opening.rank, verbs.eager_limit,
                                      exposed == nullptr ? HostBootstrap::Line::ours : HostBootstrap::Line::of_others);
  return std::make_unique<verbs::VerbsFabric>(std::move(bootstrap), verbs, exposed);
#else
  static_cast<void>(opening);
  static_cast<void>(segment);
  static_cast<void>(exposed);
  throw FabricError{
      "transport 'verbs' is not in this build: it was made without the headers of libibverbs. Install them "
      "(Debian: apt install libibverbs-dev) and build again"};
#endif
}

// Shared memory and, where there is an active device, verbs.
std::unique_ptr<Fabric> make_mixed(const Opening& opening, std::shared_ptr<job::Segment> segment) {
  auto near = std::make_unique<shm::ShmFabric>(segment, shm_options(opening), shm::ShmFabric::Opening::later);
  std::unique_ptr<FarFabric> far;
  try {
    far = make_verbs(opening, std::move(segment), near->arena());
  } catch (const FabricError& error) {
    // Operations that need another host fail later, with this text.
    near->open(false, error.message);
    return near;
  }
  return std::make_unique<mixed::MixedFabric>(std::move(near), std::move(far));
}

}  // namespace

std::unique_ptr<Fabric> make_fabric(const Opening& opening, tcp::Socket listener,
                                    std::shared_ptr<job::Segment> segment) {
  if (opening.transport == "tcp") return make_tcp(opening, std::move(listener), nullptr);
  if (listener) return make_beside_tcp(opening, std::move(listener), std::move(segment));
  if (opening.transport == "verbs") return make_verbs(opening, std::move(segment), nullptr);
  // Where no host is named, all ranks are on this one, and nothing is spent on a network.
  if (opening.transport == "auto" && !opening.host.empty() && opening.size > 1)
    return make_mixed(opening, std::move(segment));
  return std::make_unique<shm::ShmFabric>(std::move(segment), shm_options(opening));
}

}  // namespace nbc::addon
