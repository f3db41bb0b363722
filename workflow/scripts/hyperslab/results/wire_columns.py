"""Columns of data in an object store, and behind a server: what passes on the wire, and how it got there."""

from __future__ import annotations

from hyperslab.results.column import Column, seconds, size

# What requests a gateway counts, by the ends of columns' names -> words for them.
KINDS = {
    "gets": "that get an object or a part of one",
    "heads": "that ask for no more than an object's size",
    "lists": "that ask which objects there are",
    "puts": "that put an object or a part of one",
}
WIRE = {
    "open_requests": Column(
        "number of requests to open file and array, counted at the gateway (object stores)"
    ),
    **{f"open_{kind}": Column(f"number of those among them {words}") for kind, words in KINDS.items()},
    "open_wire_bytes": size("of the answers to those requests (object stores)"),
    "wire_requests": Column(
        "number of requests of the selection, of copying what is fetched first, or of opening all files, "
        "counted at the gateway (object stores); behind a server those between it and the store"
    ),
    **{f"wire_{kind}": Column(f"number of those among them {words}") for kind, words in KINDS.items()},
    "wire_bytes": size("of the answers to those requests (object stores)"),
    "wire_failures": Column(
        "number of requests, opening included, that failed at the store or on the way and were asked again "
        "(object stores)"
    ),
    "wire_refused": Column(
        "number of requests, opening included, that the gateway itself did not let pass, because they were "
        "none of the cell's (object stores)"
    ),
    "open_client_bytes": size("of a server's answers to its client while file and array were opened"),
    "client_bytes": size(
        "of a server's answers to its client for the selection, without what the protocol puts around them"
    ),
    "turned_away": Column(
        "number of requests for which a server was too busy, and which its client made again within time_s"
    ),
}
WIRE_OF_FILES = {
    "upload_s": seconds(
        "to put what was written into the object store, and see that it is there whole; of writes part of "
        "time_s, else before all selections"
    ),
    "upload_requests": Column("number of requests that put the array into the object store"),
    "upload_bytes": size("of the bodies of those requests"),
    "upload_failures": Column("number of those requests that failed and were made again"),
    "straight_small_s": seconds(
        "to get 1 KiB straight from the store, median of five (control of the gateway)"
    ),
    "gateway_small_s": seconds(
        "that the gateway itself adds to a request of 1 KiB, without the latency and bandwidth of the site"
    ),
    "straight_large_s": seconds("to get 1 MiB straight from the store (control of the gateway)"),
    "gateway_large_s": seconds("that the gateway itself adds to a request of 1 MiB, likewise"),
}
