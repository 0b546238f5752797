// Who connects to this rank, until they have proven who they are: the listening socket, and a place for each of these
// strangers.
//
// Places and time are limited. Where all places are taken, or no descriptor is left, whoever calls waits in the
// system's queue. A place is taken from a stranger that was silent for some time (youth), never from one that has had
// no time to answer: so neither strangers nor hundreds of ranks at once push a rank out.
//
// Threads: the owner of the engine.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/tcp/handshake.h"
#include "fabric/tcp/parking.h"
#include "fabric/tcp/socket.h"

namespace nbc::tcp {

// What connections that prove themselves are given to.
class Host {
 public:
  virtual Verdict judge(const Handshake& stranger) = 0;
  virtual void welcome(Rank peer, Socket socket) = 0;
  // Something is to be done at another time than before, see Door::next().
  virtual void set_timer() = 0;

 protected:
  ~Host() = default;
};

struct DoorOptions {
  int64_t handshake_milliseconds = 0;  // until a connection that did not prove itself is closed
  size_t places = 0;
  int silence_milliseconds = 0;  // see prepare()
};

class Door {
 public:
  // `listener_name`, `stranger_name`: what poll() says of its sockets; a stranger's place is added to the latter.
  Door(Socket listener, const Identity& identity, const DoorOptions& options, Parking& parking, Host& host,
       uint64_t listener_name, uint64_t stranger_name);

  void accept_all();
  void advance(size_t place);
  // Milliseconds of the clock: when on_time() has something to do; 0: never.
  int64_t next() const;
  void on_time(int64_t now);
  // How long a stranger is young.
  int64_t youth() const { return options_.handshake_milliseconds / 10; }
  uint64_t accepted() const { return accepted_; }
  uint64_t refused() const { return refused_; }

 private:
  struct Stranger {
    std::unique_ptr<Handshake> handshake;
    int64_t deadline = 0;  // milliseconds
  };

  bool has_place() const;
  size_t place();
  void drop(size_t place);
  void rest();
  void accept_again();

  Socket listener_;
  const Identity& identity_;
  DoorOptions options_;
  Parking& parking_;
  Host& host_;
  uint64_t listener_name_;
  uint64_t stranger_name_;
  std::vector<Stranger> strangers_;  // by place; empty ones are free
  size_t waiting_ = 0;
  int64_t rests_until_ = 0;  // milliseconds: when those who call are accepted again; 0: now
  uint64_t refused_ = 0;     // who called, and did not prove itself, or was one too many
  uint64_t accepted_ = 0;
};

}  // namespace nbc::tcp
