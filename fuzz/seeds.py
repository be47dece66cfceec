"""Writes the seed corpora fuzz/corpus/TARGET/ from nothing but NumPy and, for model files, the tool.

    /usr/bin/python3 fuzz/seeds.py [TOOL]        TOOL: build/corestack
"""
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOOL = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "build/corestack").resolve()
random = np.random.default_rng(20250601)


def put(target, name, content):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def npy(array):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=False)
    content = out.getvalue()
    # Less padding than NumPy's: what is mutated should mean something.
    length = struct.unpack("<H", content[8:10])[0]
    header = content[10:10 + length].rstrip(b" \n") + b"\n"
    return content[:8] + struct.pack("<H", len(header)) + header + content[10 + length:]


def probabilities(rows, classes, kind="f4"):
    raw = random.gamma(1.0, size=(rows, classes)) + 1e-3
    return (raw / raw.sum(1, keepdims=True)).astype(kind)


# ---- arrays ------------------------------------------------------------------------------------------------------

def arrays():
    for kind in ["<f4", ">f4", "<f8", "<f2", "u1", "<i2", ">i8", "?"]:
        put("npy", f"{kind.strip('<>?') or 'b1'}{'be' if kind[0] == '>' else ''}.npy", npy(np.arange(6).reshape(3, 2).astype(kind)))
    put("npy", "fortran.npy", npy(np.asfortranarray(np.arange(12, dtype="<f4").reshape(2, 3, 2))))
    put("npy", "scalar.npy", npy(np.float32(3)))
    put("npy", "empty.npy", npy(np.zeros((0, 4), "<f4")))
    put("npy", "text.npy", npy(np.array(["a", "blue", "é"])))
    put("npy", "bytes.npy", npy(np.array([b"a", b"bc"])))
    put("npy", "special.npy", npy(np.array([[np.nan, np.inf], [-0.0, 1e-45]], "<f4")))
    version2 = npy(np.arange(3, dtype="<i4"))
    put("npy", "version2.npy", version2[:6] + b"\x02\x00" + struct.pack("<I", len(version2) - 10 - 12) + version2[10:])
    for name, method in [("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)]:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            archive.writestr(zipfile.ZipInfo("a.npy"), npy(probabilities(4, 3)), method)
            if name == "stored":
                archive.writestr(zipfile.ZipInfo("labels.npy"), npy(np.array([0, 2, 1, 0])), method)
        put("npz", f"{name}.npz", out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), npy(np.array(["one", "two"])), zipfile.ZIP_DEFLATED)
    put("npz", "text.npz", out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("a.npy"), npy(np.zeros((64, 64), "f4", order="F")), zipfile.ZIP_DEFLATED)
    put("npz", "zeros.npz", out.getvalue())


def tables():
    put("csv", "plain.csv", "0.1,0.9\n0.5,0.5\n")
    put("csv", "header.csv", "id,cat,dog\na1,0.25,0.75\nb2,1,0\n")
    put("csv", "quoted.csv", "\ufeffid;\"a;b\";c\r\n\"x\"\"y\";1e-3;2\r\n\"two\nlines\";3;-4\r\n\r\n")
    put("csv", "tabs.tsv", "image_id\tlabel\n7\t0\n9\t1\n")
    put("csv", "column.csv", "0\n1\n2\n1\n")
    put("csv", "words.csv", "label\ncat\ndog\ncat\n")
    put("csv", "cr.csv", "1,2\r3,4\r")
    put("csv", "numbers.csv", "0,1,2\nnan,inf,-0\n1.5,.5,5.\n")


def tensors():
    """Files that an independent writer made, and some of what has to be refused."""
    folder = HERE.parent / "tests/data/safetensors"
    refused = ["hole", "overlap", "name_twice", "shape_overflow", "surrogate", "deep_shape", "half_byte", "trailing",
               "length_beyond", "metadata_key_twice"]
    for path in [*sorted(folder.glob("ok_*")), *(folder / f"bad_{name}.safetensors" for name in refused)]:
        put("safetensors", path.name, path.read_bytes())
    folder = HERE.parent / "tests/data/weight_space"
    for name in ("step0", "swag", "swa6"):
        put("weights", f"{name}.safetensors", (folder / f"{name}.safetensors").read_bytes())


# ---- images ------------------------------------------------------------------------------------------------------

def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels, bits=8, kind=0, extra=b"", interlace=0):
    """Rows of `pixels` without a filter; grey (0) or palette (3)."""
    height, width = pixels.shape
    if bits == 16:
        rows = [row.astype(">u2").tobytes() for row in pixels]
    else:
        rows = []
        for row in pixels:
            binary = "".join(format(int(v), f"0{bits}b") for v in row)
            binary += "0" * (-len(binary) % 8)
            rows.append(bytes(int(binary[i:i + 8], 2) for i in range(0, len(binary), 8)))
    data = b"".join(b"\0" + row for row in rows)
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(data, 9)) +
            chunk(b"IEND", b""))


def images():
    for bits in (1, 2, 4, 8, 16):
        put("png", f"grey{bits}.png", png(random.integers(0, min(1 << bits, 300), (5, 7)), bits))
    palette = chunk(b"PLTE", bytes(range(12)))
    put("png", "palette2.png", png(random.integers(0, 4, (3, 5)), 2, 3, palette))
    put("png", "palette8.png", png(random.integers(0, 4, (3, 5)), 8, 3, palette + chunk(b"tRNS", b"\0\xff")))
    put("png", "extras.png", png(np.ones((2, 2)), 8, 0, chunk(b"gAMA", struct.pack(">I", 45455)) +
                                 chunk(b"tEXt", b"Comment\0a mask") + chunk(b"zTXt", b"Note\0\0" + zlib.compress(b"x" * 90))))
    for name in ("grey4i.png", "palette8i.png", "rgb.png"):
        put("png", name, (HERE.parent / "tests/data/segmentation" / name).read_bytes())


# ---- JSON --------------------------------------------------------------------------------------------------------

def coco():
    images = [{"id": 1, "width": 100, "height": 80, "file_name": "a.jpg"}, {"id": 7, "width": 50, "height": 50}]
    categories = [{"id": 1, "name": "cat"}, {"id": 3, "name": "dog"}]
    annotations = [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 30.5, 20], "area": 600, "iscrowd": 0,
         "segmentation": [[1, 2, 3, 4, 5, 6]]},
        {"id": 2, "image_id": 7, "category_id": 3, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 1,
         "segmentation": {"counts": [3, 4], "size": [2, 2]}}]
    whole = {"info": {"year": 2017}, "images": images, "annotations": annotations, "categories": categories}
    put("coco_annotations", "whole.json", json.dumps(whole))
    put("coco_annotations", "order.json", json.dumps({k: whole[k] for k in ("annotations", "categories", "images")}))
    put("coco_annotations", "bare.json", json.dumps({"images": images, "categories": [{"id": 1}]}))
    put("coco_annotations", "none.json", json.dumps({"images": [], "annotations": [], "categories": []}))
    put("coco_annotations", "odd.json", '{"images":[{"id":-1,"x":{"y":[[],{}]}}],"categories":[{"id":9007199254740993,'
        '"name":"\\u00e9\\ud83d\\ude00"}],"annotations":[{"image_id":-1,"category_id":9007199254740993,'
        '"bbox":[1e0,-0.0,1E-3,2],"iscrowd":false}]}')
    results = [{"image_id": 1, "category_id": 1, "bbox": [1.5, 2, 30, 40], "score": 0.9},
               {"image_id": 7, "category_id": 3, "bbox": [0, 0, 1e-3, 5], "score": 1},
               {"image_id": 9223372036854775807, "category_id": 3, "bbox": [0, 1, 2, 3], "score": 0}]
    put("coco_results", "results.json", json.dumps(results))
    put("coco_results", "extra.json", json.dumps([{**results[0], "segmentation": {"counts": "abc"}, "id": None}]))
    put("coco_results", "none.json", "[]")
    put("coco_results", "score.json", '[{"score":-2.5e3,"image_id":1,"bbox":[0,0,1,1],"category_id":1}]')
    return whole, results


MANIFEST = {"corestack_pool": 1, "task": "classification", "classes": ["cat", "dog", "cow"], "output": "probability",
            "splits": {"oof": {"labels": "y.npy", "ids": "ids.csv", "folds": "folds.npy", "groups": "groups.npy"},
                       "test": {"labels": "yt.npy"}},
            "models": [{"name": "a", "family": "cnn", "flops": 4.1e9, "params": 2e6, "latency_ms": 3.2,
                        "predictions": {"oof": "a.npy", "test": "at.npy"}},
                       {"name": "b", "predictions": {"oof": "b.csv", "test": "bt.npz#x"}}]}


def manifests():
    put("manifest", "plain.json", json.dumps(MANIFEST))
    shifted = json.loads(json.dumps(MANIFEST))
    shifted["splits"]["noise"] = {"labels": "yn.npy", "clean": "test", "domain": "sketch", "conditions": [
        {"shift": "noise", "kind": "gaussian_noise", "severity": 1}, {"kind": "blur", "severity": 5}]}
    shifted["splits"]["svhn"] = {"ood": True}
    shifted["classes"] = 3
    shifted["training_counts"] = [10, 20, 30]
    shifted["reference_errors"] = {"gaussian_noise": [0.5, 0.7], "blur": 0.6, "clean": 0.1}
    for m in shifted["models"]:
        m["predictions"].update(noise=m["name"] + "n.npy", svhn={"file": "s.npy", "ids": "si.csv"})
        m["ensemble"] = {"kind": "snapshot", "of": "run1", "passes": 3}
    put("manifest", "shifted.json", json.dumps(shifted))
    put("manifest", "regression.json", json.dumps({
        "corestack_pool": 1, "task": "regression", "outputs": ["x", "y"], "splits": {"oof": {"targets": "y.npy"}},
        "models": [{"name": "a", "predictions": {"oof": "a.npy"}}]}))
    put("manifest", "parts.json", json.dumps({
        "corestack_pool": 1, "splits": {"oof": {"labels": ["y0.npy", "in/y1.npy"], "ids": ["ids.csv"]}},
        "models": [{"name": "a", "predictions": {"oof": ["a.npy", "b.safetensors#x"]}},
                   {"name": "b", "predictions": {"oof": {"path": ["a.npy", "c.npy"], "ids": "in"}}}]}))
    put("manifest", "segmentation.json", json.dumps({
        "corestack_pool": 1, "task": "segmentation", "classes": 3, "layout": "channels-first", "ignore": 255,
        "splits": {"oof": {"labels": "masks/"}}, "models": [{"name": "a", "predictions": {"oof": "maps"}}]}))
    put("manifest", "detection.json", json.dumps({
        "corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json", "folds": "f.npy"}},
        "models": [{"name": "a", "predictions": {"oof": "a.json"}}]}))
    put("reference_errors", "means.json", json.dumps({"gaussian_noise": 0.886428, "fog": 1, "clean": 0.43}))
    put("reference_errors", "severities.json", json.dumps({"snow": [0.5, 0.625, 0.75, 1e-9], "jpeg": [0.25]}))
    put("reference_errors", "odd.json", '{"a": 0.5, "a": 0.25, "\\u00e9\\u000a": [0], "b": {"c": []}}')
    put("manifest", "outside.json", json.dumps({**MANIFEST, "splits": {"oof": {"labels": "out/passwd"},
                                                                       "test": {"labels": "../../x.npy"}}}))
    for name, path in [("archives_inside", "in.npz#/x.npy"), ("archives_folder", "out.npz#"), ("archives_outside", "out.npz#a")]:
        put("manifest", name + ".json", json.dumps({
            "corestack_pool": 1, "classes": 2, "splits": {"oof": {"labels": path, "ids": "in/x.npy"}},
            "models": [{"name": "a", "predictions": {"oof": "a.npz#b"}}]}))


# ---- whole pools -------------------------------------------------------------------------------------------------

def bundle(files):
    out = b""
    for name, content in files.items():
        content = content.encode() if isinstance(content, str) else content
        out += f"file {name} {len(content)}\n".encode() + content + b"\n"
    return out


def safetensors(**tensors):
    names = {"f4": "F32", "f2": "F16", "i4": "I32"}
    header, data = {}, b""
    for name, array in tensors.items():
        content = array.tobytes()
        header[name] = {"dtype": names[array.dtype.str[1:]], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def pools(whole, results):
    y = np.array([0, 1, 2, 1], "i4")
    manifest = {**MANIFEST, "splits": {"oof": {"labels": "y.npy", "ids": "ids.csv", "folds": "f.npy", "groups": "g.npy"}},
                "models": [{"name": "a", "predictions": {"oof": "a.npy"}}, {"name": "b", "predictions": {"oof": "b.csv"}}]}
    table = "id,cat,dog,cow\n" + "".join(f"i{i},{p[0]:.6f},{p[1]:.6f},{1 - round(p[0], 6) - round(p[1], 6):.6f}\n"
                                         for i, p in reversed(list(enumerate(probabilities(4, 3, "f8")))))
    classification = {"pool.json": json.dumps(manifest), "y.npy": npy(y), "ids.csv": "id\ni0\ni1\ni2\ni3\n",
                      "f.npy": npy(np.array([0, 1, 0, 1], "i8")), "g.npy": npy(np.array([5, 6, 5, 6], "u2")),
                      "a.npy": npy(probabilities(4, 3, "f2")), "b.csv": table}
    put("pool", "classification", bundle(classification))
    conditions = {**MANIFEST, "classes": 3, "output": "logit", "splits": {"noise": {
        "labels": "y.npy", "conditions": [{"shift": "n", "severity": 1}, {"shift": "n", "severity": 2}]}, "far": {"ood": True}},
        "models": [{"name": "a", "predictions": {"noise": "n.npy", "far": "far.npy"}}]}
    weighted = json.loads(json.dumps(manifest))
    weighted["splits"] = {"oof": {"labels": "y.safetensors", "weights": "w.npy"}}
    weighted["models"] = [{"name": "a", "predictions": {"oof": "p.safetensors#a"}},
                          {"name": "b", "predictions": {"oof": "p.safetensors#b"}}]
    put("pool", "tensors", bundle({"pool.json": json.dumps(weighted), "y.safetensors": safetensors(y=y),
                                   "w.npy": npy(np.array([1, 0.5, 0, 2], "f4")),
                                   "p.safetensors": safetensors(a=probabilities(4, 3), b=probabilities(4, 3, "f2"))}))
    put("pool", "conditions", bundle({"pool.json": json.dumps(conditions), "y.npy": npy(y),
                                      "n.npy": npy(random.normal(size=(2, 4, 3)).astype("f4")),
                                      "far.npy": npy(random.normal(size=(2, 3)).astype(">f8"))}))
    put("pool", "folder", bundle({"oof_a.npy": npy(probabilities(4, 3)), "oof_b.npy": npy(probabilities(4, 3)),
                                  "test_a.npy": npy(probabilities(2, 3)), "test_b.csv": "0.5,0.25,0.25\n1,0,0\n",
                                  "oof_labels.npy": npy(y), "test_y.csv": "0\n2\n"}))
    put("pool", "binary", bundle({"a.npy": npy(np.array([0.1, 0.9, 0.5], "f4")), "labels.csv": "label\n0\n1\n0\n"}))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr(zipfile.ZipInfo("a.npy"), npy(probabilities(4, 3)))
        z.writestr(zipfile.ZipInfo("y.npy"), npy(y))
    packed = {"corestack_pool": 1, "classes": 3, "splits": {"oof": {"labels": "p.npz#y"}},
              "models": [{"name": "a", "predictions": {"oof": "p.npz#a"}}]}
    put("pool", "archive", bundle({"pool.json": json.dumps(packed), "p.npz": archive.getvalue()}))
    values = {"corestack_pool": 1, "task": "regression", "outputs": 2, "splits": {"oof": {"targets": "y.npy"}},
              "models": [{"name": "a", "predictions": {"oof": "a.npy"}}]}
    put("pool", "regression", bundle({"pool.json": json.dumps(values), "y.npy": npy(random.normal(size=(3, 2))),
                                      "a.npy": npy(np.asfortranarray(random.normal(size=(3, 2)).astype("f4")))}))
    maps = {"corestack_pool": 1, "task": "segmentation", "classes": 2, "layout": "channels-last",
            "splits": {"oof": {"labels": "masks"}},
            "models": [{"name": "a", "predictions": {"oof": "a"}}]}
    put("pool", "segmentation", bundle({
        "pool.json": json.dumps(maps), "masks/x.png": png(random.integers(0, 2, (2, 3))),
        "masks/z.png": png(random.integers(0, 2, (1, 3))),
        "a/x.npy": npy(probabilities(6, 2).reshape(2, 3, 2)), "a/z.npy": npy(probabilities(3, 2).reshape(1, 3, 2))}))
    arrays = {**maps, "layout": "channels-first", "splits": {"oof": {"labels": "y.npy"}},
              "models": [{"name": "a", "predictions": {"oof": "a.npy"}}]}
    first = np.moveaxis(probabilities(12, 2).reshape(2, 2, 3, 2), 3, 1)
    put("pool", "segmentation_arrays", bundle({"pool.json": json.dumps(arrays), "a.npy": npy(np.ascontiguousarray(first)),
                                               "y.npy": npy(random.integers(0, 2, (2, 2, 3)).astype("u1"))}))
    boxes = {"corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
             "models": [{"name": "a", "predictions": {"oof": "a.json"}}]}
    put("pool", "detection", bundle({"pool.json": json.dumps(boxes), "gt.json": json.dumps(whole),
                                     "a.json": json.dumps(results[:2])}))
    # What the caller says (fuzz/pool.c): task, output, layout, ignore, classes, zip_limit, files.
    even = npy(np.full((2, 2, 3, 2), 0.5, "f4"))
    put("pool", "config_maps", bundle({"config": bytes([3, 0, 1, 2, 2]), "oof_a.npy": even,
                                       "oof_labels.npy": npy(np.arange(12).reshape(2, 2, 3).astype("u1") % 2)}))
    unsaid = {"corestack_pool": 1, "classes": 2, "splits": {"oof": {"conditions": [{"kind": "fog"}, {"kind": "snow"}]}},
              "models": [{"name": "a", "predictions": {"oof": "a.npy"}}]}
    rows = npy(np.full((2, 6, 2), 0.5, "f4"))
    for name, config, array in [("maps", [3, 0, 1], even), ("values", [2], rows), ("classes", [1, 2], rows)]:
        put("pool", "config_task_" + name, bundle({"config": bytes(config), "pool.json": json.dumps(unsaid), "a.npy": array}))
    put("pool", "config_files", bundle({"config": bytes([1, 2, 0, 0, 3, 0, 31]), "a.npy": npy(np.eye(4, 3, dtype="f4")),
                                        "y.npy": npy(y), "ids.csv": "id\ni0\ni1\ni2\ni3\n", "f.npy": npy(y % 2),
                                        "g.npy": npy(y), "w.npy": npy(np.ones(4, "f4"))}))
    put("pool", "config_limit", bundle({"config": bytes([0, 0, 0, 0, 0, 1]), "pool.json": json.dumps(packed),
                                        "p.npz": archive.getvalue()}))


# ---- models ------------------------------------------------------------------------------------------------------

def fit(name, folder, *arguments):
    out = folder / f"{name}.cst"
    subprocess.run([TOOL, "fit", folder, "-o", out, "--seed", "1", "--set", "evaluate.nested=false", *arguments],
                   check=True, stdout=subprocess.DEVNULL, cwd=folder)
    put("model", name, out.read_bytes())


def models():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "classes"
        folder.mkdir()
        y = random.integers(0, 3, 90).astype("i4")
        for member in "abc":
            p = probabilities(90, 3) + 0.7 * np.eye(3)[y]
            np.save(folder / f"{member}.oof.npy", (p / p.sum(1, keepdims=True)).astype("f4"))
        np.save(folder / "labels.oof.npy", y)
        fit("default", folder)
        fit("paper", folder, "--preset", "paper", "--set", "gate.hidden=2", "--set", "gate.epochs=2")
        fit("nobias", folder, "--set", "loglinear.bias=false")
        fit("prototype", folder, "--preset", "prototype")
        fit("everything", folder, "--set", "meta.learners=ridge,log-linear", "--set", "gate.hidden=2", "--set",
            "gate.epochs=2", "--set", "probability.map=simplex", "--set", "blend.rule=uniform")
        fit("blend", folder, "--set", "meta.learners=log-linear,temperature+log-linear,vector+log-linear,logistic,"
            "best-single+temperature,average+vector,ridge+temperature", "--set", "blend.rule=uniform")
        for method in ("average+vector", "average+isotonic", "autogluon", "hill-climbing", "ridge+platt", "mlp"):
            fit(method.replace("+", "_").replace("-", "_"), folder, "--method", method)
        np.save(folder / "domains.oof.npy", np.array(["photo", "sketch", "clip art"])[np.arange(90) % 3])
        fit("domains", folder, "--set", "domain.aware=true", "--set", "meta.learners=log-linear")
        folder = pathlib.Path(temporary) / "many"
        folder.mkdir()
        own = np.random.default_rng(1)
        y = np.arange(198, dtype="i4") % 66
        for member in "ab":
            p = own.gamma(1.0, size=(198, 66)) + 3 * np.eye(66)[y]
            np.save(folder / f"{member}.oof.npy", (p / p.sum(1, keepdims=True)).astype("f4"))
        np.save(folder / "labels.oof.npy", y)
        fit("many_classes", folder, "--set", "select.direction=none", "--set", "meta.learners=log-linear")
        folder = pathlib.Path(temporary) / "values"
        folder.mkdir()
        y = random.normal(size=(60, 2))
        for member in "abc":
            np.save(folder / f"{member}.oof.npy", (y + 0.5 * random.normal(size=y.shape)).astype("f4"))
        np.save(folder / "y.npy", y)
        (folder / "pool.json").write_text(json.dumps({
            "corestack_pool": 1, "task": "regression", "outputs": 2, "splits": {"oof": {"targets": "y.npy"}},
            "models": [{"name": m, "predictions": {"oof": m + ".oof.npy"}} for m in "abc"]}))
        fit("regression", folder)
        folder = pathlib.Path(temporary) / "boxes"
        folder.mkdir()
        images = [{"id": i, "width": 100, "height": 100} for i in range(1, 13)]
        truth = [{"id": i, "image_id": i, "category_id": 1 + i % 2, "bbox": [10 + i, 20, 30, 30], "area": 900, "iscrowd": 0}
                 for i in range(1, 13)]
        (folder / "gt.json").write_text(json.dumps({
            "images": images, "annotations": truth, "categories": [{"id": 1, "name": "cat"}, {"id": 2}]}))
        for member in "abc":
            found = [{"image_id": t["image_id"], "category_id": t["category_id"],
                      "bbox": [v + float(random.normal()) for v in t["bbox"]], "score": float(random.uniform(0.3, 1))}
                     for t in truth] + [{"image_id": 1, "category_id": 1, "bbox": [60, 60, 20, 20], "score": 0.2}]
            (folder / f"{member}.json").write_text(json.dumps(found))
        (folder / "pool.json").write_text(json.dumps({
            "corestack_pool": 1, "task": "detection", "splits": {"oof": {"annotations": "gt.json"}},
            "models": [{"name": m, "predictions": {"oof": m + ".json"}} for m in "abc"]}))
        fit("detection", folder)
        fit("wbf", folder, "--method", "wbf")
        folder = pathlib.Path(temporary) / "pixels"
        folder.mkdir()
        y = random.integers(0, 2, (6, 8, 8)).astype("u1")
        for member in "abc":
            p = probabilities(384, 2).reshape(6, 8, 8, 2) + 0.7 * np.eye(2)[y]
            np.save(folder / f"{member}.npy", (p / p.sum(3, keepdims=True)).astype("f4"))
        np.save(folder / "y.npy", y)
        (folder / "pool.json").write_text(json.dumps({
            "corestack_pool": 1, "task": "segmentation", "classes": ["no", "yes"], "splits": {"oof": {"labels": "y.npy"}},
            "models": [{"name": m, "predictions": {"oof": m + ".npy"}} for m in "abc"]}))
        fit("segmentation", folder)
        folder = pathlib.Path(temporary) / "guard"  # enough rows for what the guard compares with
        folder.mkdir()
        own = np.random.default_rng(5)
        y = own.integers(0, 3, 260).astype("i4")
        for member in "abc":
            p = own.dirichlet(np.ones(3), 260) + 0.7 * np.eye(3)[y]
            np.save(folder / f"{member}.oof.npy", (p / p.sum(1, keepdims=True)).astype("f4"))
        np.save(folder / "labels.oof.npy", y)
        fit("guard", folder, "--set", "keep.max=2")


def options():
    table = json.loads(subprocess.run([TOOL, "options", "--json"], check=True, capture_output=True, text=True).stdout)
    rows = table if isinstance(table, list) else table.get("options", table)
    put("options", "all", "".join(f"{row['key']}={row['default']}\n" for row in rows))
    put("options", "values", "seed=18446744073709551615\ncka.threshold=1e-400\nkeep.fraction=0x1p-3\n"
        "meta.learners=ridge,lasso,ridge\nrefit.drop=ON\nlambda.rule= cv\nblend.temperature=nan\n")
    put("options", "methods", "greedy+temperature\nautogluon\npaper+vector\nridge+platt+isotonic\nprototype\n+\n")


arrays()
tables()
images()
tensors()
annotations, detections = coco()
manifests()
pools(annotations, detections)
options()
models()
