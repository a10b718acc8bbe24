    /** Takes the elements of inputs by their names; others are zeros.{{sequence}} */
    fun run(inputs: Map<String, FloatArray>): {{type}} {
        val unknown = inputs.keys - SHAPES.keys
        require(unknown.isEmpty()) { "the net has no input $unknown" }
        val given = SHAPES.mapValues { (name, shape) -> blob(name, shape, inputs[name]) }{{first}}
        val results = net.run(given, OUTPUTS{{continued}})
        return {{tail}}
    }
