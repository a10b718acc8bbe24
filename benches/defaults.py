"""Networks as users export them: current libraries at their defaults and real sizes, with random weights.

usage: defaults.py export FOLDER [--match RE]
       defaults.py check FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/defaults.md]

`export` writes FOLDER/NAME/model.onnx and the inputs beside it, of the sizes of the export and of others if sizes are free. It needs the
packages of benches/defaults.txt, and no network. `check` needs numpy, onnx, onnxruntime and ncnn. Each network is converted as it is;
if that is refused, with the sizes of the export. Transformers that would be slow have their real widths and fewer layers.
"""
import json, os, shutil, signal, subprocess, sys, tempfile, time

import numpy as np

from exported import Conversion, export_all, exported, mat_of, model_of, open_net, parser, save, table, write
from networks import varied

TOLERANCE = 1e-3
HEAD = """Written by `defaults.py check`: networks with random weights as the libraries of `defaults.txt` export them at their defaults. "as is" is a
conversion without options, "sizes" one with the sizes of the export. The error is the largest beside onnxruntime, as a part of the largest
magnitude of an output, at the sizes of the export and at others if they are free. `.bin` is its size as a part of that of the model, the
time is that of onnxruntime's on one thread (the least of several runs of each, in turns), extra outputs are those of the net that the model has not. A network is
right but for the order of scores if it differs, and with offsets on the numbers that it orders, which are larger than these, it does not; it is
unstable in onnxruntime if a change of its inputs by 1e-5 moves an output by more than 0.05.

"""


def lively(module, *inputs, call=None, **named):
    """The module with varied parameters, convolutions that keep the magnitude of their input, and statistics of the inputs that are given:
    otherwise the results hardly depend on the inputs, and TopK chooses among equal scores."""
    import torch

    module = varied(module)
    for part in module.modules():
        if isinstance(part, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)):
            wanted = (2 / part.weight[0].numel()) ** 0.5
            found = part.weight.std().item()
            if 0 < found < wanted:
                part.weight *= wanted / found
    if inputs or named:
        norms = [part for part in module.modules() if isinstance(getattr(part, "running_mean", None), torch.Tensor)]
        hooks = [part.register_forward_pre_hook(measure) for part in norms]
        call(module, *inputs) if call else module(*inputs, **named)
        for hook in hooks:
            hook.remove()
    return module


def measure(norm, inputs):
    """Gives a BatchNormalization the statistics of its input."""
    axes = [axis for axis in range(inputs[0].dim()) if axis != 1]
    if inputs[0].numel() > 4 * inputs[0].shape[1]:
        norm.running_mean.copy_(inputs[0].mean(axes))
        norm.running_var.copy_(inputs[0].var(axes) + 1e-3)


def picture(height, width):
    """Squares and noise: a mean over noise alone is the same everywhere."""
    generator = np.random.default_rng(0)
    squares = generator.uniform(size=(1, 3, -(-height // 24), -(-width // 24))).repeat(24, 2).repeat(24, 3)[:, :, :height, :width]
    return (0.8 * squares + 0.2 * generator.uniform(size=(1, 3, height, width))).astype("float32")


def onnx_names(folder):
    import onnxruntime

    session = onnxruntime.InferenceSession(model_of(folder), providers=["CPUExecutionProvider"])
    return [node.name for node in session.get_inputs()]


def save_feeds(folder, place, feeds):
    names = set(onnx_names(folder))
    np.savez(os.path.join(folder, f"inputs{place}.npz"), **{name: array for name, array in feeds.items() if name in names})


# ultralytics


def ultralytics(name, size=640, other=None, **options):
    """A model of a YAML file of ultralytics."""

    def export(folder):
        import torch
        from ultralytics import RTDETR, YOLO

        with tempfile.TemporaryDirectory() as written:
            os.chdir(written)
            model = (RTDETR if name.startswith("rtdetr") else YOLO)(name + ".yaml")
            lively(model.model, torch.from_numpy(picture(size, size)).repeat(2, 1, 1, 1))
            path = model.export(format="onnx", imgsz=size, **options)
            os.makedirs(folder, exist_ok=True)
            save(path, folder)
        os.chdir("/")
        for place, shape in enumerate([(size, size), *([other] if other else [])]):
            save_feeds(folder, place, {"images": picture(*shape)})

    return export


# torch.onnx.export at its defaults


def torch_export(build, *shapes, call=None, draw=None):
    def export(folder):
        import torch

        inputs = tuple((draw or torch.rand)(*shape) for shape in shapes)
        module = lively(build(), *(torch.cat([some, 1 - some]) for some in inputs), call=call)

        class Called(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.module = module

            def forward(self, *inputs):
                return call(self.module, *inputs)

        with tempfile.TemporaryDirectory() as written:
            path = os.path.join(written, "model.onnx")
            names = [f"input{place}" for place in range(len(inputs))]
            torch.onnx.export(Called().eval() if call else module, inputs, path, dynamo=True, input_names=names, verbose=False)
            save(path, folder)
        save_feeds(folder, 0, {name: tensor.numpy() for name, tensor in zip(names, inputs)})

    return export


def timm(name, size=None):
    def export(folder):
        import timm as library

        module = library.create_model(name, pretrained=False)
        sizes = size or module.default_cfg.get("input_size", (3, 224, 224))
        torch_export(lambda: module, (1, *sizes))(folder)

    return export


def vision(name, *shapes, call=None, **options):
    def build():
        import torchvision

        module = torchvision.models
        for part in name.split("."):
            module = getattr(module, part)
        return module(weights=None, **options)

    return torch_export(build, *(shapes or [(1, 3, 224, 224)]), call=call)


# transformers' exporter with all sizes free


def transformers(kind, config, *inputs, part=None, step=False, free=True, **sizes):
    """A module of a configuration with the exporter of transformers. `inputs` are functions of torch that make the keyword arguments,
    the first for the export."""

    def export(folder):
        import torch
        import transformers as library
        from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter
        from transformers.exporters.utils import decompose_prefill_decode, get_leaf_tensors

        made = getattr(library, config)(**{key: value() if callable(value) else value for key, value in sizes.items()})
        torch.manual_seed(0)
        module = lively(getattr(library, kind)(made), **({} if step or part else inputs[0](torch)))
        if part:
            module = getattr(module, part)
        samples = []
        for given in inputs:
            torch.manual_seed(1)
            sample = given(torch)
            if step:
                module, sample = decompose_prefill_decode(module, sample, multi_token_decode=step == "tokens")["decode"]
            samples.append(sample)
        kept = [{key: tensor.detach().clone() for key, tensor in get_leaf_tensors(sample).items()} for sample in samples]
        result = OnnxExporter().export(module, samples[0], config=OnnxConfig(dynamic=free))
        with tempfile.TemporaryDirectory() as written:
            result.save_pretrained(written)
            save(os.path.join(written, "model.onnx"), folder)
        names = onnx_names(folder)
        for place, tensors in enumerate(kept):
            values = list(tensors.values())
            feeds = {key: tensor.numpy() for key, tensor in tensors.items()}
            if not set(names) <= set(feeds) and len(values) == len(names):
                feeds = {name: tensor.numpy() for name, tensor in zip(names, values)}
            save_feeds(folder, place, feeds)
            missing = set(names) - set(feeds)
            assert not missing, f"{missing} not in {list(feeds)}"

    return export


def pixels(*shape, **more):
    return lambda torch: dict(pixel_values=torch.from_numpy(picture(*shape[2:])), **more)


def tokens(length, size=1000, **more):
    def make(torch):
        return dict(input_ids=torch.randint(5, size, (1, length)), attention_mask=torch.ones(1, length, dtype=torch.int64), **more)

    return make


def wave(name, *shape):
    return lambda torch: {name: torch.randn(*shape)}


def of(config, **sizes):
    def build():
        import transformers as library

        return getattr(library, config)(**sizes)

    return build


def siglip_inputs(height, length):
    return lambda torch: dict(pixel_values=torch.from_numpy(picture(height, height)), input_ids=torch.randint(5, 1000, (1, length)))


def sam_inputs(points):
    return lambda torch: dict(pixel_values=torch.from_numpy(picture(1024, 1024)), input_points=1024 * torch.rand(1, 1, points, 2), input_labels=torch.ones(1, 1, points, dtype=torch.int64))


def whisper_inputs(length):
    return lambda torch: dict(input_features=torch.randn(1, 80, 3000), decoder_input_ids=torch.randint(5, 1000, (1, length)))


def moonshine_inputs(samples, length):
    return lambda torch: dict(input_values=torch.randn(1, samples), decoder_input_ids=torch.randint(5, 1000, (1, length)))


IMAGES = [pixels(1, 3, 640, 640), pixels(1, 3, 480, 640)]
TEXTS = [tokens(40), tokens(17), tokens(128)]
PROMPTS = [tokens(12), tokens(40)]
LANGUAGE = dict(vocab_size=8000, num_hidden_layers=2)
D = dict(hidden_size=384, num_attention_heads=6, num_hidden_layers=4, patch_size=14, image_size=518)
DEPTH = dict(out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False, apply_layernorm=True, **D)
DEBERTA = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=256, share_att_key=True, norm_rel_ebd="layer_norm", max_relative_positions=-1, position_biased_input=False, type_vocab_size=0)

NETWORKS = {
    # ultralytics at its defaults
    "yolo26n": ultralytics("yolo26n"),
    "yolo26n_end2end": ultralytics("yolo26n", nms=False),
    "yolo26n_end2end_dynamic": ultralytics("yolo26n", other=(480, 640), dynamic=True, nms=False),
    **{f"yolo26n_{task}_end2end": ultralytics(f"yolo26n-{task}", 1024 if task == "obb" else 640, nms=False) for task in ["seg", "pose", "obb"]},
    "yolo26n_dynamic": ultralytics("yolo26n", other=(480, 640), dynamic=True),
    "yolo26n_half": ultralytics("yolo26n", quantize=16),
    **{f"yolo26n_{task}": ultralytics(f"yolo26n-{task}", 1024 if task == "obb" else 224 if task == "cls" else 640) for task in ["seg", "pose", "obb", "cls"]},
    "yolo26n_seg_dynamic": ultralytics("yolo26n-seg", other=(480, 640), dynamic=True),
    "yolo26n_sem": ultralytics("yolo26n-sem"),
    "yolo26n_depth": ultralytics("yolo26n-depth"),
    "yolo12n": ultralytics("yolo12n"),
    "yolo12n_dynamic": ultralytics("yolo12n", other=(480, 640), dynamic=True),
    "yolo11n": ultralytics("yolo11n"),
    "yolo11n_dynamic": ultralytics("yolo11n", other=(480, 640), dynamic=True),
    "yolo11n_half": ultralytics("yolo11n", quantize=16),
    **{f"yolo11n_{task}": ultralytics(f"yolo11n-{task}", 1024 if task == "obb" else 224 if task == "cls" else 640) for task in ["seg", "pose", "obb", "cls"]},
    "yolo11n_seg_dynamic": ultralytics("yolo11n-seg", other=(480, 640), dynamic=True),
    "yolo11n_pose_dynamic": ultralytics("yolo11n-pose", other=(480, 640), dynamic=True),
    "yolo11n_obb_dynamic": ultralytics("yolo11n-obb", 1024, other=(640, 1024), dynamic=True),
    "yolo11n_with_nms": ultralytics("yolo11n", nms=True),
    "yolov10n": ultralytics("yolov10n"),
    "yolov10n_dynamic": ultralytics("yolov10n", other=(480, 640), dynamic=True),
    "yolov10n_end2end": ultralytics("yolov10n", nms=False),
    "yolov10n_end2end_dynamic": ultralytics("yolov10n", other=(480, 640), dynamic=True, nms=False),
    "yolov9t": ultralytics("yolov9t"),
    "yolov8n": ultralytics("yolov8n"),
    "yolov8n_dynamic": ultralytics("yolov8n", other=(480, 640), dynamic=True),
    **{f"yolov8n_{task}": ultralytics(f"yolov8n-{task}", 1024 if task == "obb" else 224 if task == "cls" else 640) for task in ["seg", "pose", "obb", "cls"]},
    "yolov5n": ultralytics("yolov5n"),
    "rtdetr_l": ultralytics("rtdetr-l"),
    # transformers, detection and segmentation
    "rt_detr": transformers("RTDetrForObjectDetection", "RTDetrConfig", *IMAGES),
    "rt_detr_fixed": transformers("RTDetrForObjectDetection", "RTDetrConfig", IMAGES[0], free=False),
    "rt_detr_v2": transformers("RTDetrV2ForObjectDetection", "RTDetrV2Config", *IMAGES),
    "d_fine": transformers("DFineForObjectDetection", "DFineConfig", *IMAGES),
    "d_fine_fixed": transformers("DFineForObjectDetection", "DFineConfig", IMAGES[0], free=False),
    "rf_detr": transformers("RfDetrForObjectDetection", "RfDetrConfig", pixels(1, 3, 560, 560)),
    "rf_detr_fixed": transformers("RfDetrForObjectDetection", "RfDetrConfig", pixels(1, 3, 560, 560), free=False),
    "segformer": transformers("SegformerForSemanticSegmentation", "SegformerConfig", pixels(1, 3, 512, 512), pixels(1, 3, 384, 512)),
    "sam_fixed": transformers("SamModel", "SamConfig", sam_inputs(2), free=False, vision_config=of("SamVisionConfig", num_hidden_layers=3, global_attn_indexes=[1])),
    "sam": transformers("SamModel", "SamConfig", sam_inputs(2), sam_inputs(3), vision_config=of("SamVisionConfig", num_hidden_layers=3, global_attn_indexes=[1])),
    # transformers, images
    "depth_anything": transformers("DepthAnythingForDepthEstimation", "DepthAnythingConfig", pixels(1, 3, 518, 518), pixels(1, 3, 392, 518), backbone_config=of("Dinov2Config", **DEPTH), reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64),
    "depth_anything_fixed": transformers("DepthAnythingForDepthEstimation", "DepthAnythingConfig", pixels(1, 3, 518, 518), free=False, backbone_config=of("Dinov2Config", **DEPTH), reassemble_hidden_size=384, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64),
    "dinov2": transformers("Dinov2Model", "Dinov2Config", pixels(1, 3, 518, 518), pixels(1, 3, 224, 252), **D),
    "dinov3_vit": transformers("DINOv3ViTModel", "DINOv3ViTConfig", pixels(1, 3, 224, 224), pixels(1, 3, 256, 320), num_hidden_layers=4, num_register_tokens=4),
    "dinov3_convnext": transformers("DINOv3ConvNextModel", "DINOv3ConvNextConfig", pixels(1, 3, 224, 224), pixels(1, 3, 256, 320)),
    "siglip": transformers("SiglipModel", "SiglipConfig", siglip_inputs(224, 64), vision_config=dict(num_hidden_layers=3), text_config=dict(num_hidden_layers=3)),
    "vit": transformers("ViTModel", "ViTConfig", pixels(1, 3, 224, 224), num_hidden_layers=4),
    "swin": transformers("SwinModel", "SwinConfig", pixels(1, 3, 224, 224)),
    "convnextv2": transformers("ConvNextV2Model", "ConvNextV2Config", pixels(1, 3, 224, 224), pixels(1, 3, 256, 320)),
    "mobilevitv2": transformers("MobileViTV2Model", "MobileViTV2Config", pixels(1, 3, 256, 256)),
    # transformers, sound
    "whisper_encoder": transformers("WhisperModel", "WhisperConfig", wave("input_features", 1, 80, 3000), part="encoder"),
    "whisper_step": transformers("WhisperForConditionalGeneration", "WhisperConfig", *[lambda torch: dict(input_features=torch.randn(1, 80, 3000))], step=True),
    "moonshine_encoder": transformers("MoonshineModel", "MoonshineConfig", wave("input_values", 1, 32000), wave("input_values", 1, 16000), part="encoder"),
    "moonshine_step": transformers("MoonshineForConditionalGeneration", "MoonshineConfig", wave("input_values", 1, 32000), wave("input_values", 1, 16000), step=True),
    "wav2vec2": transformers("Wav2Vec2ForCTC", "Wav2Vec2Config", wave("input_values", 1, 32000), wave("input_values", 1, 20000), num_hidden_layers=3),
    "parakeet": transformers("ParakeetForCTC", "ParakeetCTCConfig", lambda torch: dict(input_features=torch.randn(1, 400, 80), attention_mask=torch.ones(1, 400, dtype=torch.int64)), encoder_config=of("ParakeetEncoderConfig", num_hidden_layers=2)),
    "encodec": transformers("EncodecModel", "EncodecConfig", wave("input_values", 1, 1, 24000), wave("input_values", 1, 1, 16000)),
    "encodec_encoder": transformers("EncodecModel", "EncodecConfig", lambda torch: dict(hidden_states=torch.randn(1, 1, 24000)), part="encoder"),
    "dac_decoder": transformers("DacModel", "DacConfig", lambda torch: dict(hidden_state=torch.randn(1, 1024, 50)), lambda torch: dict(hidden_state=torch.randn(1, 1024, 30)), part="decoder"),
    "dac_encoder": transformers("DacModel", "DacConfig", lambda torch: dict(hidden_state=torch.randn(1, 1, 16000)), lambda torch: dict(hidden_state=torch.randn(1, 1, 12800)), part="encoder"),
    "mimi": transformers("MimiModel", "MimiConfig", wave("input_values", 1, 1, 24000), num_hidden_layers=2),
    # transformers, text
    "minilm": transformers("BertModel", "BertConfig", *TEXTS, vocab_size=8000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
    "modernbert": transformers("ModernBertModel", "ModernBertConfig", *TEXTS, vocab_size=8000, num_hidden_layers=4, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
    "deberta_v3": transformers("DebertaV2Model", "DebertaV2Config", *TEXTS, vocab_size=8000, hidden_size=768, num_hidden_layers=3, num_attention_heads=12, intermediate_size=3072, **DEBERTA),
    "deberta_v3_512": transformers("DebertaV2Model", "DebertaV2Config", tokens(512), free=False, vocab_size=8000, hidden_size=768, num_hidden_layers=2, num_attention_heads=12, intermediate_size=3072, **DEBERTA),
    "t5_encoder": transformers("T5EncoderModel", "T5Config", *TEXTS, vocab_size=8000, num_layers=3),
    "t5_step": transformers("T5ForConditionalGeneration", "T5Config", *PROMPTS, step=True, vocab_size=8000, num_layers=3, decoder_start_token_id=0),
    "marian_step": transformers("MarianMTModel", "MarianConfig", *PROMPTS, step=True, vocab_size=8000, d_model=512, encoder_layers=3, decoder_layers=3, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, pad_token_id=0, decoder_start_token_id=0),
    "qwen3_step": transformers("Qwen3ForCausalLM", "Qwen3Config", *PROMPTS, step=True, hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8, head_dim=128, **LANGUAGE),
    "qwen3_tokens": transformers("Qwen3ForCausalLM", "Qwen3Config", *PROMPTS, step="tokens", hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8, head_dim=128, **LANGUAGE),
    "gemma3_step": transformers("Gemma3ForCausalLM", "Gemma3TextConfig", *PROMPTS, step=True, hidden_size=640, intermediate_size=2048, num_attention_heads=4, num_key_value_heads=1, head_dim=256, sliding_window=512, layer_types=["sliding_attention", "full_attention"], **LANGUAGE),
    "lfm2_step": transformers("Lfm2ForCausalLM", "Lfm2Config", *PROMPTS, step=True, hidden_size=1024, intermediate_size=4096, num_attention_heads=16, num_key_value_heads=8, layer_types=["conv", "full_attention"], **LANGUAGE),
    "gpt2_step": transformers("GPT2LMHeadModel", "GPT2Config", *PROMPTS, step=True, vocab_size=8000, n_layer=3),
    # torchvision
    **{
        name: vision(name, *shapes)
        for name, shapes in {
            "alexnet": [], "convnext_tiny": [], "densenet121": [], "efficientnet_b0": [], "efficientnet_v2_s": [], "googlenet": [], "inception_v3": [(1, 3, 299, 299)],
            "maxvit_t": [], "mnasnet1_0": [], "mobilenet_v2": [], "mobilenet_v3_small": [], "regnet_y_400mf": [], "resnet18": [], "resnext50_32x4d": [],
            "shufflenet_v2_x1_0": [], "squeezenet1_1": [], "swin_t": [], "swin_v2_t": [], "vgg11_bn": [], "vit_b_16": [], "wide_resnet50_2": [],
        }.items()
    },
    "deeplabv3_mobilenet": vision("segmentation.deeplabv3_mobilenet_v3_large", (1, 3, 520, 520), weights_backbone=None),
    "lraspp": vision("segmentation.lraspp_mobilenet_v3_large", (1, 3, 520, 520), weights_backbone=None),
    "fcn_resnet50": vision("segmentation.fcn_resnet50", (1, 3, 256, 256), weights_backbone=None),
    "raft_small": vision("optical_flow.raft_small", (1, 3, 128, 160), (1, 3, 128, 160), call=lambda module, first, second: module(first, second)[-1]),
    "raft_large": vision("optical_flow.raft_large", (1, 3, 360, 520), (1, 3, 360, 520), call=lambda module, first, second: module(first, second, num_flow_updates=3)[-1]),
    "r3d_18": vision("video.r3d_18", (1, 3, 16, 112, 112)),
    "r2plus1d_18": vision("video.r2plus1d_18", (1, 3, 16, 112, 112)),
    "s3d": vision("video.s3d", (1, 3, 16, 224, 224)),
    "mvit_v2_s": vision("video.mvit_v2_s", (1, 3, 16, 224, 224)),
    "swin3d_t": vision("video.swin3d_t", (1, 3, 8, 224, 224)),
    # timm
    **{
        f"timm_{name}": timm(name)
        for name in """beit_base_patch16_224 cait_xxs24_224 coat_lite_tiny coatnet_0_rw_224 convformer_s18 convit_tiny convmixer_768_32
        crossvit_tiny_240 csatv2 davit_tiny deit3_small_patch16_224 dm_nfnet_f0 edgenext_small efficientformer_l1 efficientformerv2_s0 efficientvit_b0
        efficientvit_m0 eva02_tiny_patch14_224 fastvit_t8 fastvit_mci0 focalnet_tiny_srf gcvit_xxtiny ghostnetv2_100 hardcorenas_a hgnetv2_b0 hiera_tiny_224 inception_next_tiny
        lcnet_050 levit_128s maxxvit_rmlp_nano_rw_256 mambaout_femto mixer_s32_224 mobilenetv4_conv_small mobilenetv4_hybrid_medium mobileone_s0 mobilevit_xs mobilevitv2_050
        nest_tiny nextvit_small pit_ti_224 poolformerv2_s12 pvt_v2_b0 rdnet_tiny regnety_004 repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_26w_4s resmlp_12_224 resnest14d rexnet_100
        seresnet18 selecsls42b sequencer2d_s shvit_s1 starnet_s1 swiftformer_xs swin_tiny_patch4_window7_224 swinv2_cr_tiny_ns_224 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small
        vit_tiny_patch16_224 vit_small_patch16_dinov3 vit_base_patch16_siglip_224 visformer_tiny volo_d1_224 vovnet39a xception41 xcit_nano_12_p16_224 halonet26t lambda_resnet26t botnet26t_256""".split()
    },
}


def export(arguments):
    os.environ.update(YOLO_AUTOINSTALL="false", YOLO_OFFLINE="true")

    def stop(*_):
        raise TimeoutError

    def limited(network, folder):
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(arguments.limit)
        try:
            network(folder)
        finally:
            signal.alarm(0)

    export_all(NETWORKS, arguments, limited)


def sizes_of_export(folder):
    feeds = np.load(os.path.join(folder, "inputs0.npz"))
    options = []
    for name in feeds:
        if feeds[name].ndim:
            options += ["--input-shape", f"{name}:{','.join(map(str, feeds[name].shape))}"]
    return options


def typed(session, feeds):
    kinds = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(bool)": "bool", "tensor(double)": "float64"}
    return {node.name: feeds[node.name].astype(kinds[node.type]) for node in session.get_inputs()}


def compare_at(folder, stem, place):
    """Prints the errors, how far onnxruntime's own results move if the input does by a rounding, times and extra outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model_of(folder), options, providers=["CPUExecutionProvider"])
    feeds = typed(session, np.load(os.path.join(folder, f"inputs{place}.npz")))
    names = [node.name for node in session.get_outputs()]
    try:
        start = time.perf_counter()
        expected = dict(zip(names, session.run(None, feeds)))
        first = time.perf_counter() - start
    except Exception as error:
        print(json.dumps({"trouble": "onnxruntime: " + str(error).splitlines()[0][-100:]}))
        return
    moved = {name: array * np.float32(1 + 1e-5) if array.dtype == np.float32 else array for name, array in feeds.items()}
    unstable = dict(zip(names, session.run(None, moved)))
    net, ports = open_net(folder, stem, threads=1)
    mats = {port["blob"]: mat_of(feeds[port["name"]], port["int32"]) for port in ports["inputs"]}
    blobs = [port["blob"] for port in ports["outputs"]]

    def run():
        extractor = net.create_extractor()
        for name, mat in mats.items():
            assert extractor.input(name, mat) == 0
        start = time.perf_counter()
        results = [extractor.extract(name) for name in blobs]
        return results, time.perf_counter() - start

    results, taken = run()
    errors, moves, trouble = {}, {}, None
    for port, (code, mat) in zip(ports["outputs"], results):
        name, wanted = port["name"], expected[port["name"]].astype(np.float64)
        if code != 0 or (mat.empty() and wanted.size) or np.array(mat).size != wanted.size:
            trouble = f"no output {name}: code {code}, {np.array(mat).shape if code == 0 else ''} for {wanted.shape}"
            continue
        got = np.array(mat).astype(np.float64).reshape(wanted.shape)
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) or 1
        with np.errstate(invalid="ignore"):
            difference = np.where(got == wanted, 0, np.abs(got - wanted)) / largest
            errors[name] = float(difference.max(initial=0))
            difference = np.where(unstable[name] == wanted, 0, np.abs(unstable[name] - wanted)) / largest
            moves[name] = float(difference.max(initial=0))
        if wanted.size > 1 and np.ptp(wanted) == 0:
            trouble = f"all elements of {name} are equal"
    times = [[first], [taken]]
    # The least of runs in turns, for two seconds.
    for _ in range(20):
        if sum(map(sum, times)) > 3:
            break
        start = time.perf_counter()
        session.run(None, feeds)
        times[0].append(time.perf_counter() - start)
        times[1].append(run()[1])
    extra = sorted(set(net.output_names()) - set(blobs))
    print(json.dumps(dict(errors=errors, moves=moves, trouble=trouble, times=[min(some) for some in times], extra=extra)))


def compared(conversion, place):
    run = subprocess.run([sys.executable, __file__, "compare", conversion.folder, conversion.net, str(place)], capture_output=True, text=True)
    try:
        return json.loads(run.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"trouble": f"died {run.returncode} {(run.stderr.splitlines() or [''])[-1][:120]}"}


def spread(folder, target, place):
    """Writes the network with offsets on the numbers that it orders, which are larger than these; -> whether it orders any."""
    import onnx, onnxruntime
    from onnx import helper, numpy_helper

    model = onnx.load(model_of(folder))
    ordering = [node for node in model.graph.node if node.op_type in ("TopK", "ArgMax", "ArgMin")]
    if not ordering:
        return False
    os.makedirs(target)
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = {node.name for node in probe.graph.output}
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in {node.input[0] for node in ordering} - names)
    onnx.save(probe, model_of(target))
    session = onnxruntime.InferenceSession(model_of(target), providers=["CPUExecutionProvider"])
    feeds = typed(session, np.load(os.path.join(folder, f"inputs{place}.npz")))
    found = dict(zip([node.name for node in session.get_outputs()], session.run(None, feeds)))
    nodes, generator = [], np.random.default_rng(0)
    for node in model.graph.node:
        if node.op_type in ("TopK", "ArgMax", "ArgMin"):
            scores, name = found[node.input[0]], node.output[0]
            offsets = generator.permutation(scores.size).reshape(scores.shape) * (2 * max(np.ptp(scores), 1e-3))
            model.graph.initializer.append(numpy_helper.from_array(offsets.astype(scores.dtype), name + "_offsets"))
            nodes.append(helper.make_node("Add", [node.input[0], name + "_offsets"], [name + "_spread"]))
            node.input[0] = name + "_spread"
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, model_of(target))
    shutil.copy(os.path.join(folder, f"inputs{place}.npz"), os.path.join(target, "inputs0.npz"))
    return True


def is_right_when_spread(arguments, folder, place):
    """Whether the net is right if no rounding changes the order of what the network orders."""
    target = os.path.join(folder, "spread")
    shutil.rmtree(target, ignore_errors=True)
    try:
        if not spread(folder, target, place):
            return False
        conversion = Conversion(arguments.convert, target, options=sizes_of_export(target))
        return conversion.succeeded and not wrong_outputs(compared(conversion, 0))
    finally:
        shutil.rmtree(target, ignore_errors=True)


def wrong_outputs(result):
    """The outputs that differ. One that moves with a rounding of the input may err by as much, up to 0.05."""
    if result.get("trouble"):
        return [result["trouble"]]
    return [name for name, error in result["errors"].items() if not error <= max(TOLERANCE, min(0.05, 20 * result["moves"][name]))]


def verdict_of(result, arguments, folder, place):
    """right, wrong, broken or unstable, and the largest error."""
    if result.get("trouble"):
        return "broken: " + result["trouble"], 0
    wrong = wrong_outputs(result)
    worst = max((error if error == error else float("inf") for error in result["errors"].values()), default=0)
    if not wrong:
        return "right", worst
    if is_right_when_spread(arguments, folder, place):
        return "right but for the order of scores", worst
    if all(result["moves"][name] > 0.05 for name in wrong):
        return "unstable in onnxruntime", worst
    return f"wrong {wrong[0]}", worst


def check(arguments):
    rows, counts, ratios = [], {}, []
    for name, folder in exported(NETWORKS, arguments).items():
        start = time.perf_counter()
        kind, reason = "as is", ""
        conversion = Conversion(arguments.convert, folder)
        if not conversion.succeeded:
            reason = conversion.reason()
            kind, conversion = "sizes", Conversion(arguments.convert, folder, "sized", sizes_of_export(folder))
            if not conversion.succeeded:
                kind, reason = "refused", reason if reason == conversion.reason() else f"{reason} / with sizes: {conversion.reason()}"
        spent = time.perf_counter() - start
        row = [name, kind, "", "", "", "", "", "", reason]
        if kind != "refused":
            places = [place for place in range(9) if os.path.exists(os.path.join(folder, f"inputs{place}.npz"))]
            results = [(place, compared(conversion, place)) for place in (places if kind == "as is" else places[:1])]
            # Sizes that the exporter declares free, and the model does not compute.
            results[1:] = [(place, result) for place, result in results[1:] if "onnxruntime" not in (result.get("trouble") or "")]
            verdicts = [verdict_of(result, arguments, folder, place) for place, result in results]
            bad = sorted(verdict for verdict, _ in verdicts if verdict != "right")[::-1]
            size = os.path.getsize(conversion.path("bin")) / os.path.getsize(model_of(folder))
            os.remove(conversion.path("bin"))
            _, first = results[0]
            ratio = first["times"][1] / first["times"][0] if "times" in first else float("nan")
            times = " ".join(f"{1000 * one:.2f}" for one in first.get("times", []))
            row = [name, kind, bad[0] if bad else "right", ", ".join(f"{error:.0e}" for _, error in verdicts), str(len(conversion.layers())), f"{size:.2f}", f"{ratio:.2f}", times, reason]
            row.append(" ".join(first.get("extra", [])))
            kind = f"{kind} {row[2].split(':')[0].split()[0]}"
            if row[2].startswith("right"):
                ratios.append(ratio)
        row.append(f"{spent:.1f}")
        counts[kind] = counts.get(kind, 0) + 1
        rows.append(row)
        print(" | ".join(row), flush=True)
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
    sums = f"{len(rows)} networks: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) + f". Geometric mean of the time {mean:.2f}, largest {max(ratios, default=0):.2f}."
    print(sums)
    if arguments.out:
        heads = ["network", "converted", "verdict", "errors", "layers", ".bin", "time", "ms of onnxruntime and ncnn", "reason", "extra outputs", "seconds"]
        write(arguments.out, "# Networks at the defaults of their libraries", HEAD + table(heads, rows) + f"\n{sums}\n")


def main():
    if sys.argv[1:2] == ["compare"]:
        return compare_at(*sys.argv[2:5])
    arguments = parser(__doc__, "export", "check")
    arguments.add_argument("--limit", type=int, default=300, help="seconds of an export")
    arguments = arguments.parse_args()
    arguments.folder = os.path.abspath(arguments.folder)
    {"export": export, "check": check}[arguments.command](arguments)


if __name__ == "__main__":
    main()
