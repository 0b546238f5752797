/*
 * The park/doorbell protocol (fabric/shm/doorbell.h, engine/driving.cc), for the model checker spin. `npm test` runs it
 * when spin is installed.
 *
 * What is modelled: one rank with its two threads (the calling thread, MAIN, and the PROGRESS thread), two peers that
 * write messages into its mailboxes, and the words they share. Every store goes through a store buffer and becomes
 * visible whenever the buffer is flushed, as on x86; atomic read-modify-writes and fences wait for an empty buffer. The
 * futex may wake its sleeper for no reason, SPURIOUS times.
 *
 * What is proved: whatever the order of events, the run ends with all messages delivered and both threads finished. A
 * wake-up that gets lost leaves a message undelivered while everybody sleeps; spin reports that as an invalid end
 * state.
 *
 *   spin -a doorbell.pml && cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m200000
 *
 * Two halves, because together they are too large: as it is, MAIN always hands the engine over to PROGRESS when it
 * leaves (Engine::hand_over), and three messages come. With -DDOZE it may also leave things unattended (Engine::leave),
 * and one comes. With -DSOCKET the rank is also on a network, and sleeps on descriptors (see "the socket").
 *
 * Each of the following takes one thing out of the protocol, and each must make spin find an error (`npm test`
 * insists):
 *
 *   -DNO_RECHECK        a sleeper does not look at its mailboxes again between arming and sleeping
 *   -DNO_FENCE          a writer does not order its message before its load of `armed`
 *   -DNO_SLEEPER_FENCE  a sleeper does not order `armed` before its second look
 *   -DLATE_BELL         a sleeper reads its bell after the second look instead of before arming
 *   -DEXACT_NEED        a writer rings only if it took `need` from exactly 1 to 0 (see "late decrements")
 *   -DUNSIGNED_NEED     `need` is unsigned and wraps below 0
 *   -DNO_LOOK_BACK      MAIN does not look at `armed` again after it has unlocked the engine (see "the locked engine")
 *   -DNO_UNLOCK_FENCE   ... or does, but lets that load overtake the store that unlocks
 *   -DDOZE -DNO_DOZE_RECHECK  PROGRESS stops dozing without looking at `unattended` again (see "dozing")
 *   -DDOZE -DNO_DOZE_FENCE    ... or does, but lets that load overtake the store to `dozing`
 *   -DDOZE -DNO_LEAVE_FENCE   MAIN lets its load of `dozing` overtake its store to `unattended`
 *   -DSOCKET -DLATE_DRAIN     a sleeper takes datagrams out after the second look instead of after it has slept
 *   -DLOOP -DNO_ADD           PROGRESS stops dozing without having itself woken together with the event loop
 *   -DLOOP -DBLIND_ADD        ... or does, but also where the bell has been rung
 *   -DLOOP -DNO_TAKE_OVER     PROGRESS, woken together with the event loop, does not look after it
 *   -DSOCKET -DONE_SOCKET     both sleepers share a socket, and the first to wake takes the datagram out
 *
 * Late decrements. A writer that has seen `armed` != 0 may be delayed before it decrements `need`, and the sleeper may
 * by then have woken, consumed the message, and be arming again: the decrement then hits the new count between the
 * stores of `need` and `armed`, and the writer's exchange finds nobody to wake. So the count can be too small when the
 * sleeper falls asleep, even 0 or negative, never too large. Therefore `need` is signed and "old value <= 1" rings.
 *
 * The locked engine. MAIN hands over: it arms for PROGRESS, looks again, and unlocks. A writer may ring between the
 * second look and the unlocking. PROGRESS then wakes, finds the engine locked, and sleeps again; nobody is armed any
 * more and nobody has seen the message. So MAIN looks back: after unlocking, and after a fence, it loads `armed`; if
 * the value is not PROGRESS any more, the bell has been rung, and MAIN goes in again unless PROGRESS already has the
 * lock. (The fence pairs with PROGRESS's failed attempt to lock, which comes after the exchange of `armed`.)
 *
 * Dozing. While `dozing`, PROGRESS sleeps for a short time only, and takes over what it finds `unattended` twice
 * without MAIN having been back (entries). It stops dozing when nobody is likely to leave anything soon, here whenever
 * it likes. The two flags are stored and loaded crosswise: either MAIN sees that PROGRESS does not doze and rings, or
 * PROGRESS sees that something is unattended.
 *
 * The event loop (-DLOOP, which includes -DDOZE). MAIN may also arm for its event loop when it leaves (Engine::rest),
 * and leave that unattended. Then it sleeps on a socket until a writer calls it or PROGRESS has delivered everything,
 * or it comes back for another reason, or it computes and never looks at the socket. While the bell is armed for the
 * event loop, PROGRESS dozes. It may stop: then it changes `armed`, by compare-and-swap, so that writers wake it, too.
 * When it finds that the bell has been rung, it gives MAIN a doze to come back, and takes over if that did not.
 *
 * Looking again. A thread that sleeps for several arrivals wakes after a while without being rung, because the first
 * may have been wrong. Here that is a wake-up for no reason. PROGRESS may then take over what is armed for both.
 *
 * The socket (mixed/mixed_fabric.h). Writers send a datagram to the socket of the sleeper, MAIN rings PROGRESS by an
 * eventfd. Neither has a ticket: both stay readable until the sleeper has slept and takes them out. A thread that
 * disarms takes out what has come for the sleeper that was armed, if it was rung.
 */

#ifdef LOOP
#define DOZE
#endif

#ifndef ENTRIES
#ifdef DOZE
#define ENTRIES 3
#else
#define ENTRIES 2
#endif
#endif /* how often MAIN enters the engine at most, before it only computes */
#ifndef SPURIOUS
#define SPURIOUS 1 /* how often the futex wakes a sleeper for no reason */
#endif

#define WRITERS 2
#ifdef DOZE
#ifndef SECOND
/* SECOND = 1 was checked once, with ENTRIES 2 and without spurious wake-ups: 37 million states. */
#define SECOND 0 /* messages of the second writer */
#endif
#define MESSAGES_OF(writer) ((writer) == 0 -> 1 : SECOND)
#define TOTAL (1 + SECOND)
#else
#define MESSAGES_OF(writer) (2 - (writer)) /* two from the first, one from the second: enough for each error above */
#define TOTAL 3
#endif

/* Values of `armed`, and indexes of `rung` and `asleep`. */
#define NOBODY 0
#define MAIN 1
#define PROGRESS 2
#define EVENT_LOOP 3 /* MAIN in its event loop, on a socket */
#define BOTH 4       /* EVENT_LOOP and PROGRESS */

/* --- shared memory --- */

byte mailbox[WRITERS]; /* messages of each writer that are visible and not consumed */
byte armed = NOBODY;   /* whom a writer is to wake */
short need;            /* arrivals until waking is worthwhile */
bool rung[3];          /* the futex word has changed since its sleeper read it */

/* --- memory of the rank --- */

bool locked;     /* the engine belongs to somebody */
bool wanted;     /* MAIN waits for the lock */
byte delivered;  /* what MAIN sees in the state table while it computes; written by the owner of the engine */
bool handedOver; /* PROGRESS is responsible; written by the owner */
byte entries;    /* how often MAIN took the engine; written by the owner */
bool unattended; /* MAIN left, and something needs driving */
bool dozing;     /* PROGRESS looks by itself now and then */
byte dozeSince;  /* `entries` when its doze began */
bool stopping;
#ifdef LOOP
bool loopCalled; /* a datagram is in the socket of the event loop */
bool loopArmed;  /* armed for the event loop, and MAIN has not been back; written by the owner */
byte rungAt;     /* `entries` and 1 when PROGRESS first saw that the event loop was rung for */
#endif
bool asleep[3];
#ifdef SOCKET
bool called[3];  /* a datagram is in the socket of the sleeper */
byte armedFor;   /* MixedFabric::armed_; written by the owner */
#endif
byte spurious = SPURIOUS;

/* --- store buffers: one per thread, first in, first out --- */

#define AT_MAILBOX 0 /* + writer */
#define AT_NEED 2
#define AT_ARMED 3
#define AT_LOCK 4
#define AT_UNATTENDED 5
#define AT_DOZING 6

chan buffer[4] = [4] of { byte, byte };        /* 0, 1: the writers; 2: MAIN; 3: PROGRESS */
#define BUFFER_OF(thread) buffer[1 + (thread)]

/*
 * What a thread does to its own buffer nobody else sees, and once the buffer is empty, it stays so until the thread
 * stores again. So a store joins the step before it, and a fence the step after it, without leaving out any behaviour;
 * it saves states.
 */
#define STORE(buf, address, value) buf!address, value
#define FENCE(buf) empty(buf)

inline flush(which) {
  atomic {
    which?address, value;
    if
    :: address == AT_NEED  -> need = value
    :: address == AT_ARMED -> armed = value
    :: address == AT_LOCK  -> locked = value
    :: address == AT_UNATTENDED -> unattended = value
    :: address == AT_DOZING -> dozing = value
    :: else                -> mailbox[address]++
    fi;
    address = 0;
    value = 0
  }
}

active proctype memory() {
  byte address, value;
end:
  do
  :: flush(buffer[0])
  :: flush(buffer[1])
  :: flush(buffer[2])
  :: flush(buffer[3])
  od
}

/* --- futex --- */

#ifdef SOCKET
#ifdef ONE_SOCKET
#define SOCKET_OF(who) MAIN
#else
#define SOCKET_OF(who) (who)
#endif

#define readBell(who) skip

/* Sleeps on the eventfd and the socket; then takes out what there is, one after the other. */
inline futexWait(who, limited) {
#ifdef LATE_DRAIN
  called[SOCKET_OF(who)] = false;
#endif
  atomic { asleep[who] = !rung[who] && !called[SOCKET_OF(who)] }
  if
  :: !asleep[who]
  :: atomic { limited && asleep[who] -> asleep[who] = false }
  :: atomic { asleep[who] && spurious > 0 -> spurious--; asleep[who] = false }
  fi;
  rung[who] = false;
  called[SOCKET_OF(who)] = false
}

inline call(who) {
  atomic {
    called[SOCKET_OF(who)] = true;
#ifdef ONE_SOCKET
    asleep[MAIN] = false;
    asleep[PROGRESS] = false
#else
    asleep[who] = false
#endif
  }
}
#else
/* The sleeper reads the word that it will hand to futexWait. */
#define readBell(who) rung[who] = false

inline futexWait(who, limited) {
  atomic { asleep[who] = !rung[who] }
  if
  :: !asleep[who]
  :: atomic { limited && asleep[who] -> asleep[who] = false }
  :: atomic { asleep[who] && spurious > 0 -> spurious--; asleep[who] = false }
  fi
}

#define call(who) ring(who)
#endif

/* The change of the word and the system call are two steps. */
inline ring(who) {
  rung[who] = true;
  asleep[who] = false
}

/* --- a peer --- */

active [WRITERS] proctype writer() {
  byte sent, seen, who;
  short old;

#define self (_pid - 1) /* memory() is process 0 */

  do
  :: sent == MESSAGES_OF(self) -> break
  :: atomic { sent < MESSAGES_OF(self) -> sent++; STORE(buffer[self], AT_MAILBOX + self, 0) }
    atomic {
#ifndef NO_FENCE
      FENCE(buffer[self]);
#endif
      seen = armed
    }
    if
    :: seen == NOBODY -> skip
    :: else ->
      atomic { /* fetch_sub */
        empty(buffer[self]);
        seen = 0;
        old = need;
#ifdef UNSIGNED_NEED
        need = (need == 0 -> 255 : need - 1)
#else
        need = (need <= 0 -> 0 : need - 1) /* all values from 0 down mean the same: fewer states */
#endif
      }
      if
#ifdef EXACT_NEED
      :: old == 1 ->
#else
      :: old <= 1 ->
#endif
        atomic { old = 0; who = armed; armed = NOBODY } /* exchange */
        if
        :: who == NOBODY -> skip
#ifdef LOOP
        :: who >= EVENT_LOOP ->
          loopCalled = true;
          if
          :: who == BOTH -> ring(PROGRESS)
          :: else -> skip
          fi;
          who = 0
        :: who != NOBODY && who < EVENT_LOOP -> call(who); who = 0
#else
        :: else -> call(who); who = 0
#endif
        fi
      :: else -> old = 0
      fi
    fi
  od
}

/* --- the rank --- */

/* Looks into every mailbox, one load each, and takes what is there. The lock is held. */
inline poll() {
  atomic { delivered = delivered + mailbox[0]; mailbox[0] = 0 }
  atomic { delivered = delivered + mailbox[1]; mailbox[1] = 0 }
}

/* Two stores, need before armed. */
inline arm(me, whom, count) {
#ifdef SOCKET
  armedFor = whom;
#endif
  STORE(BUFFER_OF(me), AT_NEED, count);
  STORE(BUFFER_OF(me), AT_ARMED, whom)
}

/* The second look, after a fence: one load each. `found` is the answer. */
inline look(me, found) {
#ifdef NO_RECHECK
  found = false
#else
  atomic {
#ifndef NO_SLEEPER_FENCE
    FENCE(BUFFER_OF(me));
#endif
    found = mailbox[0] != 0
  }
  found = found || mailbox[1] != 0
#endif
}

inline disarm(me) {
#ifdef SOCKET
  if
  :: armedFor != NOBODY && armed == NOBODY -> called[SOCKET_OF(armedFor)] = false
  :: else -> skip
  fi;
  armedFor = NOBODY;
#endif
  STORE(BUFFER_OF(me), AT_ARMED, NOBODY)
}

/* Only MAIN waits for the lock; PROGRESS sees that, and leaves without arming. */
inline enter() {
  atomic { empty(BUFFER_OF(MAIN)) -> wanted = locked }
  atomic {
    !locked -> locked = true;
    wanted = false;
    handedOver = false;
#ifdef LOOP
    loopArmed = false;
#endif
#ifdef DOZE
    entries++;
    STORE(BUFFER_OF(MAIN), AT_UNATTENDED, false);
#endif
    disarm(MAIN)
  }
}

inline tryLock(me, got) {
  atomic { empty(BUFFER_OF(me)) -> got = !locked; locked = true }
}

inline unlock(me) {
  STORE(BUFFER_OF(me), AT_LOCK, false)
}

/* Any number of arrivals from 1 to all that are missing may be what the owner waits for. */
inline choose(count) {
  if
  :: count = 1
  :: delivered + 2 <= TOTAL -> count = 2
  :: delivered + 3 <= TOTAL -> count = 3
  fi
}

/* MAIN makes PROGRESS responsible: Engine::hand_over(). */
inline handOver() {
  do
  :: poll();
    if
    :: delivered == TOTAL -> unlock(MAIN); break
    :: else ->
      atomic { handedOver = true; choose(count); arm(MAIN, PROGRESS, count); count = 0 }
      look(MAIN, found);
      if
      :: atomic { found -> found = false; disarm(MAIN) }
      :: atomic { !found -> unlock(MAIN) }
#ifdef NO_LOOK_BACK
        break
#else
        atomic {
#ifndef NO_UNLOCK_FENCE
          FENCE(BUFFER_OF(MAIN));
#endif
          got = armed == PROGRESS
        }
        if
        :: got -> got = false; break
        :: else ->
          tryLock(MAIN, got);
          if
          :: atomic { got -> got = false; disarm(MAIN) }
          :: else -> break
          fi
        fi
#endif
      fi
    fi
  od
}

/* What is pending stays unattended. */
inline leavePending() {
  atomic { STORE(BUFFER_OF(MAIN), AT_UNATTENDED, true) }
  atomic {
#ifndef NO_LEAVE_FENCE
    FENCE(BUFFER_OF(MAIN));
#endif
    got = dozing
  }
  if
  :: atomic { got -> got = false; unlock(MAIN) }
  :: else ->
    atomic {
      empty(BUFFER_OF(MAIN)) -> got = dozing; dozing = true; /* exchange */
      if
      :: dozeSince = entries /* the ring is a timer, and the doze begins here */
      :: skip
      fi;
      unlock(MAIN)
    }
    if
    :: got -> got = false
    :: else -> ring(PROGRESS)
    fi
  fi
}

/* MAIN expects to be back soon: Engine::leave(). */
inline leaveUnattended() {
  if
  :: delivered == TOTAL -> unlock(MAIN)
  :: else -> leavePending()
  fi
}

#ifdef LOOP
/* MAIN goes back to its event loop: Engine::rest(). */
inline rest() {
  do
  :: poll();
    if
    :: delivered == TOTAL -> unlock(MAIN); break
    :: else ->
      atomic { choose(count); arm(MAIN, EVENT_LOOP, count); count = 0 }
      look(MAIN, found);
      if
      :: atomic { found -> found = false; disarm(MAIN) }
      :: atomic { !found -> loopArmed = true }
        leavePending();
        break
      fi
    fi
  od;
  if
  :: atomic { loopCalled || delivered == TOTAL -> loopCalled = false } /* the event loop sleeps until then */
  :: skip
  fi
}
#endif

active proctype mainThread() {
  byte count, enough; /* enough: value of `delivered` that ends the wait */
  byte visits;
  bool found, got;

  do
  :: atomic { visits < ENTRIES -> visits++ }
    enter();
    if
    :: poll() /* start(), test(): one pass */
    :: delivered < TOTAL -> /* wait(): until some more messages have arrived */
      atomic { choose(enough); enough = enough + delivered }
      do
      :: poll();
        if
        :: atomic { delivered >= enough -> enough = 0; break }
        :: else ->
          atomic {
#ifndef LATE_BELL
            readBell(MAIN);
#endif
            arm(MAIN, MAIN, enough - delivered)
          }
          look(MAIN, found);
#ifdef LATE_BELL
          readBell(MAIN);
#endif
          if
          :: found -> found = false
          :: else -> futexWait(MAIN, false)
          fi;
          disarm(MAIN)
        fi
      od
    fi;
#ifdef DOZE
    if
    :: true -> handOver()
    :: true -> leaveUnattended()
#ifdef LOOP
    :: true -> rest()
#endif
    fi
#else
    handOver()
#endif
  :: atomic { visits > 0 -> visits = 0; break } /* the first visit starts what the messages belong to */
  od;

  /* From here on it computes, without any call into the library. */
  delivered == TOTAL;

  /* close() */
  stopping = true;
  ring(PROGRESS)
}

/* PROGRESS drives until nothing can move, or MAIN wants the engine back: Engine::drive(). */
inline drive() {
  do
  :: wanted -> unlock(PROGRESS); break
  :: else ->
    poll();
    if
    :: delivered == TOTAL -> unlock(PROGRESS); break
    :: else ->
      atomic { choose(count); arm(PROGRESS, PROGRESS, count); count = 0 }
      look(PROGRESS, found);
      if
      :: atomic { found -> found = false; disarm(PROGRESS) }
      :: atomic { !found -> unlock(PROGRESS); break } /* a writer that has rung since has changed its bell */
      fi
    fi
  od
}

active proctype progressThread() {
  byte count;
  bool found, got, left;
#ifdef LOOP
  bool waits, rungNow, added;
#endif

  do
  :: readBell(PROGRESS); /* before trying: a ring after a failed attempt makes futexWait return */
    if
    :: stopping -> break
    :: else -> skip
    fi;
    tryLock(PROGRESS, got);
    if
    :: got ->
#ifdef LOOP
      atomic {
        got = false;
        waits = loopArmed && armed != NOBODY
      }
#ifndef NO_TAKE_OVER
      atomic {
        rungNow = loopArmed && !waits && rungAt != entries + 1;
        if
        :: rungNow ->
          rungAt = entries + 1;
          STORE(BUFFER_OF(PROGRESS), AT_DOZING, true);
          STORE(BUFFER_OF(PROGRESS), AT_UNATTENDED, true);
          FENCE(BUFFER_OF(PROGRESS))
        :: else -> skip
        fi
      }
#endif
      atomic {
        left = unattended;
        if
        :: handedOver || (left && entries == dozeSince && !waits && !rungNow) -> found = true
        :: waits && armed == BOTH -> found = true; disarm(PROGRESS) /* it looks again */
        :: !(handedOver || (left && entries == dozeSince && !waits && !rungNow)) -> skip
        fi;
        rungNow = false
      }
      if
      :: found -> skip
      :: atomic { !found && waits -> /* it is tired of dozing */
#if defined(NO_ADD)
          added = true;
#elif defined(BLIND_ADD)
          added = true;
          armed = BOTH;
#else
          added = armed != NOBODY; /* compare-and-swap */
          armed = (added -> BOTH : NOBODY);
#endif
          if
          :: added -> STORE(BUFFER_OF(PROGRESS), AT_UNATTENDED, false); left = false
          :: else -> dozeSince = entries
          fi;
          added = false;
          unlock(PROGRESS)
        }
      :: atomic { !found -> dozeSince = entries; unlock(PROGRESS) }
      fi;
      waits = false;
#else
      atomic {
        got = false;
        left = unattended;
        if
        :: handedOver || (left && entries == dozeSince) -> found = true
        :: else -> dozeSince = entries; unlock(PROGRESS)
        fi
      }
#endif
      if
      :: found ->
        atomic {
          found = false;
          handedOver = true;
#ifdef LOOP
          loopArmed = false;
#endif
          left = false;
#ifdef DOZE
          STORE(BUFFER_OF(PROGRESS), AT_UNATTENDED, false)
#endif
        }
        drive()
      :: atomic { !found && left -> left = false }
      :: !found && !left -> skip
      fi
    :: else -> skip
    fi;
#ifdef DOZE
    if
    :: dozing ->
      STORE(BUFFER_OF(PROGRESS), AT_DOZING, false);
#ifndef NO_DOZE_RECHECK
      atomic {
#ifndef NO_DOZE_FENCE
        FENCE(BUFFER_OF(PROGRESS));
#endif
        left = unattended
      }
      if
      :: atomic { left -> left = false; STORE(BUFFER_OF(PROGRESS), AT_DOZING, true) }
      :: else -> skip
      fi;
#endif
    :: skip
    fi;
    atomic { FENCE(BUFFER_OF(PROGRESS)); left = dozing }
#endif
    futexWait(PROGRESS, left);
    left = false
  od
}
