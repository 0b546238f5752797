{
  "targets": [
    {
      "target_name": "nbc",
      "sources": [
        "native/addon/addon.cc",
        "native/addon/world.cc",
        "native/addon/buffer_pin.cc",
        "native/addon/pmix.cc",
        "native/engine/engine.cc",
        "native/engine/execution.cc",
        "native/engine/settling.cc",
        "native/engine/driving.cc",
        "native/engine/lock.cc",
        "native/engine/plan.cc",
        "native/libof/libof.cc",
        "native/libof/eager.cc",
        "native/libof/rendezvous.cc",
        "native/libof/peers.cc",
        "native/fabric/sleepers.cc",
        "native/job/segment.cc",
        "native/fabric/shm/doorbell.cc",
        "native/fabric/shm/bulk.cc",
        "native/fabric/shm/arena.cc",
        "native/job/presence.cc",
        "native/job/rank_socket.cc",
        "native/fabric/shm/shm_fabric.cc",
        "native/job/watch.cc",
        "native/fabric/mixed/mixed_fabric.cc",
        "native/fabric/tcp/hmac.cc",
        "native/fabric/tcp/socket.cc",
        "native/fabric/tcp/handshake.cc",
        "native/fabric/tcp/regions.cc",
        "native/fabric/tcp/frame.cc",
        "native/fabric/tcp/memory.cc",
        "native/fabric/tcp/connection.cc",
        "native/fabric/tcp/acceptor.cc",
        "native/fabric/tcp/parking.cc",
        "native/fabric/tcp/tcp_fabric.cc",
        "native/fabric/verbs/ibverbs.cc",
        "native/fabric/verbs/device.cc",
        "native/fabric/verbs/locked_memory.cc",
        "native/fabric/verbs/memory.cc",
        "native/fabric/verbs/registrations.cc",
        "native/fabric/verbs/host_bootstrap.cc",
        "native/fabric/verbs/mailboxes.cc",
        "native/fabric/verbs/receives.cc",
        "native/fabric/verbs/connection.cc",
        "native/fabric/verbs/parking.cc",
        "native/fabric/verbs/verbs_fabric.cc"
      ],
      "include_dirs": [
        "native",
        "<!@(node -p \"require('node-addon-api').include_dir\")"
      ],
      "libraries": ["-ldl"],
      "defines": ["NAPI_VERSION=8", "NODE_ADDON_API_DISABLE_DEPRECATED", "NAPI_CPP_EXCEPTIONS"],
      "cflags_cc": ["-std=c++20", "-O3", "-Wall", "-Wextra", "-fno-rtti", "-fvisibility=hidden"],
      "cflags_cc!": ["-std=gnu++17", "-fno-exceptions"]
    },
    {
      "target_name": "nbc-rank",
      "type": "executable",
      "sources": ["native/launch/rank.cc"],
      "cflags_cc": ["-std=c++20", "-Wall", "-Wextra"],
      "cflags_cc!": ["-std=gnu++17"]
    }
  ]
}
