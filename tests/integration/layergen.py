# SPDX-License-Identifier: Apache-2.0
"""Random histories of layers: each a tar that is valid over those below it, with all that real ones have and more.

A model of the merged tree keeps the layers honest (no entry below a file, no link to what is not there); what the tree
must be in the end is for another program to say.
"""
import os
import tarfile

from ocilayout import entry, tar

NAMES = [b"a", b"b", b"bin", b"lib", b"etc", b"data", b"x.txt", b"caf\xc3\xa9", b"latin-\xe9", b"sp ace", b"new\nline", b"-dash",
         b"back\\slash", b"\xff\xfe", b"n" * 120, b"long" * 45, b"dots...", b"per%cent", b"q'uote\"", b"UPPER", b".hidden", b"wh.x"]
MODES = [0o644, 0o600, 0o755, 0o4755, 0o2755, 0o6711, 0o400, 0o000, 0o777]
FORMS = [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]
CAPABILITY = "\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
XATTRS = [("user.note", "text"), ("user.bytes", "a\0b"), ("user.high", "\udcff\udc80"), ("trusted.mark", "1"), ("security.capability", CAPABILITY)]


class History:
    """plain: only what an ordinary user can unpack and look at: no devices, nothing that cannot be opened, no attributes but
    the user's."""

    def __init__(self, rng, plain=False):
        self.rng, self.plain = rng, plain
        self.tree = {b"": "d"}  # of the layers so far, by path: d, f, l (symlink to a folder), s (other symlink), p, c
        self.links = {}  # symlinks to folders: where they lead
        self.layers = []

    def layer(self, size):
        self.now, self.entries = set(), []
        self.linked = []  # what must be there before: targets of hard links, places reached through symlinks
        self.form = self.rng.choice(FORMS)
        self.below = dict(self.tree)
        for _ in range(size):
            step = self.rng.choice([self.add] * 8 + [self.link] * 2 + [self.whiteout] * 2 + [self.opaque, self.again, self.readd])
            step()
        self.layers.append(tar(self.entries, self.form))

    # ---- paths

    def folders(self, lower=False):
        return [p for p, kind in (self.below if lower else self.tree).items() if kind == "d" and self.tree.get(p) == "d"]

    def path(self):
        """A place for an entry, as written (maybe through a lower layer's symlink) and as it is."""
        parent = written = self.rng.choice(self.folders())
        through = [p for p in self.links if p in self.below and p not in self.now and self.tree.get(p) == "l" and
                   self.tree.get(self.links[p]) == "d"]
        if through and self.rng.random() < 0.2:
            written = self.rng.choice(through)
            parent = self.links[written]
        if len(parent) > 900:
            parent = written = b""
        name = self.rng.choice(NAMES)
        return os.path.join(written, name), os.path.join(parent, name)

    def inside(self, path):
        return [p for p in self.tree if p.startswith(path + b"/")]

    def touched(self, path):
        return path in self.now or any(p.startswith(path + b"/") for p in self.now)

    def drop(self, path):
        for p in [path, *self.inside(path)]:
            self.tree.pop(p, None)
            self.links.pop(p, None)

    def put(self, written, path, kind, data=None, **fields):
        if kind != "d" or self.tree.get(path) != "d":
            self.drop(path)
        self.tree[path] = kind
        self.now.add(path)
        if written != path:
            self.linked.append(written)
        head = self.rng.choice([b"", b"./"])
        info, data = entry(os.fsdecode(head + written), data, **fields)
        if kind != "h" and self.form == tarfile.PAX_FORMAT and kind in "df" and self.rng.random() < 0.25:
            for name, value in self.rng.sample(XATTRS, 2)[:1 if self.plain else 2]:
                if not self.plain or name.startswith("user."):
                    info.pax_headers["SCHILY.xattr." + name] = value
        if self.form == tarfile.PAX_FORMAT and self.rng.random() < 0.2:
            info.mtime = self.rng.randrange(10 ** 9) + 0.25
        self.entries.append((info, data))

    def owner(self):
        return {"uid": self.rng.choice([0, 1000, 65534, 3000000]), "gid": self.rng.choice([0, 100, 4000000]),
                "mtime": self.rng.randrange(10 ** 9)}

    # ---- steps

    def add(self):
        written, path = self.path()
        kind = self.rng.choice("dddffffffsslpc" if not self.plain else "dddffffffssl")
        if self.touched(path):
            return
        fields = self.owner()
        if kind == "d":
            fields["mode"] = self.rng.choice([0o755, 0o700, 0o1777, 0o2775, 0o000, 0o555] if not self.plain else [0o755, 0o700, 0o1777])
            self.put(written, path, "d", **fields)
        elif kind == "f":
            size = self.rng.choice([0, 1, 511, 512, 513, 4096, 70000, 131072, 131073, 300000])
            fields["mode"] = self.rng.choice(MODES) | (0o600 if self.plain else 0)
            data = bytes(size) if self.rng.random() < 0.2 else self.rng.randbytes(min(size, 3000)) * (size // 3000 + 1)
            self.put(written, path, "f", data[:size], **fields)
        elif kind in "sl":
            target = self.rng.choice([b"nowhere", b"/etc/passwd", b"../../..", b"x" * 150])
            folders = [p for p in self.folders() if p]
            if kind == "l" and folders:
                lead = self.rng.choice(folders)
                target = b"/" + lead
            else:
                kind = "s"
            self.put(written, path, kind, type=tarfile.SYMTYPE, linkname=os.fsdecode(target), **{**fields, "mode": 0o777})
            if kind == "l":
                self.links[path] = lead
        elif kind == "p":
            self.put(written, path, "p", type=tarfile.FIFOTYPE, **{**fields, "mode": 0o640})
        else:
            self.put(written, path, "c", type=self.rng.choice([tarfile.CHRTYPE, tarfile.BLKTYPE]), devmajor=self.rng.randrange(300),
                     devminor=self.rng.randrange(70000), **{**fields, "mode": 0o660})

    def link(self):
        targets = [p for p, kind in self.tree.items() if kind in ("f", "s", "p")]
        written, path = self.path()
        if not targets or self.touched(path):
            return
        target = self.rng.choice(targets)
        if target == path or target.startswith(path + b"/"):
            return
        self.linked.append(target)
        self.put(written, path, self.tree[target], type=tarfile.LNKTYPE, linkname=os.fsdecode(target), mode=0o644)

    def mark(self, path):
        self.entries.append(entry(os.fsdecode(path), b"", mode=0))

    def whiteout(self):
        there = [p for p in self.below if p and p in self.tree and not self.touched(p)]
        if there:
            path = self.rng.choice(there)
            folder, name = os.path.split(path)
            self.mark(os.path.join(folder, b".wh." + name))
            self.drop(path)
            if self.rng.random() < 0.1:
                self.mark(os.path.join(folder, b".wh.not-there"))

    def readd(self):
        """A lower entry hidden and made anew in one layer, the mark before or after it."""
        there = [p for p, kind in self.below.items() if p and p in self.tree and not self.touched(p) and kind in "fs"]
        if there:
            path = self.rng.choice(there)
            folder, name = os.path.split(path)
            after = self.rng.random() < 0.5
            if not after:
                self.mark(os.path.join(folder, b".wh." + name))
            self.put(path, path, "f", b"anew" * 50, **self.owner(), mode=0o640)
            if after:
                self.mark(os.path.join(folder, b".wh." + name))

    def opaque(self):
        there = [p for p in self.folders(lower=True) if p and not any(t.startswith(p + b"/") for t in self.linked)]
        if there:
            path = self.rng.choice(there)
            for p in self.inside(path):
                if not self.touched(p):
                    self.drop(p)
            self.entries.insert(self.rng.randrange(len(self.entries) + 1), entry(os.fsdecode(os.path.join(path, b".wh..wh..opq")), b""))

    def again(self):
        """A folder of a lower layer, with other attributes."""
        there = [p for p in self.folders(lower=True) if p not in self.now]
        if there:
            path = self.rng.choice(there)
            self.put(path or b".", path, "d", **self.owner(), mode=self.rng.choice([0o711, 0o750]))


def history(rng, layers, size=25, plain=False):
    """The tars of so many layers."""
    made = History(rng, plain)
    for _ in range(layers):
        made.layer(rng.randrange(1, 2 * size))
    return made.layers
