/*
 * Taking exposed memory back over shared memory: Gate in native/fabric/shm/bulk.h.
 *
 *   spin -a revoke.pml && gcc -O2 -o pan pan.c && ./pan
 *
 * One sender with an RTR from before the revocation, one receiver. The other side may see a store later than the next
 * load of the side that stores, unless both are seq_cst: that is what SEQ_CST stands for. Spin must find a write into
 * memory that was given back without it (-DNO_ORDER), without the sender's look (-DNO_LOOK), without the look of the
 * receiver (-DNO_WAIT), or where the receiver does not wait for pieces in the middle (-DNO_PIECES).
 */
bool inside, inside_seen;           /* the sender's word, and what the receiver sees of it */
bool revoked, revoked_seen;         /* the receiver's word, and what the sender sees of it */
bool announced;                     /* a slot with one piece that either side may claim */
bool claimed, finished;
bool writing;                       /* the sender is writing into the memory */
bool given_back;

/* What is stored becomes visible at some time. */
active proctype memory() {
end:
  do
  :: inside != inside_seen -> inside_seen = inside
  :: revoked != revoked_seen -> revoked_seen = revoked
  od
}

inline write_memory() {
  writing = true;
  assert(!given_back);
  writing = false;
}

active proctype sender() {
  bool go;
  inside = true;
#ifndef NO_ORDER
  inside_seen == inside;            /* seq_cst: visible before the load */
#endif
  go = true;
#ifndef NO_LOOK
  go = !revoked_seen;
#endif
  if
  :: go ->
     if
     :: write_memory()              /* a small put: copied before it is announced */
     :: announced = true            /* a large one: pieces are claimed one by one */
     fi
  :: else
  fi;
  inside = false;
  /* Leaving is a release: what was announced is visible. */
  if
  :: announced ->
     atomic { if :: !claimed -> claimed = true; go = true :: else -> go = false fi };
     if
     :: go -> write_memory(); finished = true
     :: else
     fi
  :: else
  fi
}

active proctype receiver() {
  bool stopped;
  revoked = true;
#ifndef NO_ORDER
  revoked_seen == revoked;
#endif
#ifndef NO_WAIT
  !inside_seen;
#endif
  if
  :: announced ->
     atomic { if :: !claimed -> claimed = true; stopped = true :: else -> stopped = false fi };
#ifndef NO_PIECES
     if
     :: !stopped -> finished
     :: else
     fi
#endif
  :: else
  fi;
  given_back = true;
  assert(!writing)
}
