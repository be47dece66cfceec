"""Documents of Debian's packages as token ids: folders of the texts -> work/train.npy, oof.npz and test.npz.

    apt-get download linux-doc-6.1 python3.11-doc perl-doc && for d in *.deb; do dpkg-deb -x $d text; done
    python3 text.py text

Every file is a document; a model of byte pairs of 16,384 pieces (SentencePiece) is fitted on the documents of training."""
import gzip
import pathlib
import sys

import numpy as np
import sentencepiece

FOLDER = pathlib.Path(__file__).parent / "work"
SIZE = 16384
PARTS = {"test": 0.09, "oof": 0.02}  # of the documents


def documents(root):
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = str(path.relative_to(root))
        if not ("/Documentation/" in name and name.endswith((".rst.gz", ".txt.gz", ".rst", ".txt"))
                or "/_sources/" in name or name.endswith(".pod")) or "translations" in name:
            continue
        data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        if 500 <= len(text) <= 400_000:
            yield name, text


def main(root):
    FOLDER.mkdir(exist_ok=True)
    texts, seen = {}, set()
    for name, text in documents(pathlib.Path(root)):
        if text not in seen:
            seen.add(text)
            texts[name] = text
    names = sorted(texts)
    np.random.default_rng(0).shuffle(names)
    parts, at = {}, 0
    for part, share in PARTS.items():
        parts[part] = names[at:at + round(share * len(names))]
        at += len(parts[part])
    parts["train"] = names[at:]
    plain = FOLDER / "train.txt"
    plain.write_text("\n".join(texts[n] for n in parts["train"]))
    model = FOLDER / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        input=str(plain), model_prefix=str(model), vocab_size=SIZE, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=False, user_defined_symbols=["\n"], max_sentence_length=20000, minloglevel=1,
        input_sentence_size=150000, shuffle_input_sentence=True, num_threads=2, bos_id=1, eos_id=-1)
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
    for part, chosen in parts.items():
        tokens, groups = [], []
        for number, name in enumerate(chosen):
            ids = [1, *pieces.encode(texts[name])]
            tokens += ids
            groups += [number] * len(ids)
        tokens = np.array(tokens, np.uint16)
        if part == "train":
            np.save(FOLDER / "train.npy", tokens)
        else:
            np.savez(FOLDER / f"{part}.npz", tokens=tokens, documents=np.array(groups, np.int32), bytes=sum(len(texts[n].encode()) for n in chosen))
        print(f"{part}: {len(chosen)} documents, {len(tokens):,} tokens, {sum(len(texts[n].encode()) for n in chosen):,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
